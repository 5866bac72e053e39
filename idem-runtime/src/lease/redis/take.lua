-- ARGV: attempt, lease, retention, member, scope, key, delivery, fingerprint, message, fence
if redis.call('EXISTS', KEYS[1]) == 0 then
    return {'gone'}
end
if field('fence') ~= ARGV[10] or field('done') or tonumber(field('until')) > now then
    return {'row', unpack(row())}
end
local fence = text(math.max(tonumber(ARGV[10]) + 1, fresh_fence))
redis.call('HSET', KEYS[1], 'fence', fence, 'attempt', ARGV[1], 'until', text(now + ARGV[2]))
local attempts = text(redis.call('HINCRBY', KEYS[1], 'attempts', 1))
redis.call('HDEL', KEYS[1], 'delivery')
set('delivery', ARGV[7])
set('fingerprint', ARGV[8])
set('message', ARGV[9])
keep(tonumber(ARGV[3]), tonumber(ARGV[2]))
redis.call('ZADD', KEYS[2], text(now + ARGV[2]), ARGV[4])
return {'began', fence, attempts}
