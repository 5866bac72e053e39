-- ARGV: attempt, lease, retention, member, scope, key, delivery, fingerprint, message
if redis.call('EXISTS', KEYS[1]) == 1 then
    return {'row', unpack(row())}
end
redis.call('HSET', KEYS[1], 'scope', ARGV[5], 'key', ARGV[6], 'fence', text(fresh_fence), 'attempt', ARGV[1],
    'attempts', '1', 'begun', text(now), 'until', text(now + ARGV[2]))
set('delivery', ARGV[7])
set('fingerprint', ARGV[8])
set('message', ARGV[9])
keep(tonumber(ARGV[3]), tonumber(ARGV[2]))
redis.call('ZADD', KEYS[2], text(now + ARGV[2]), ARGV[4])
return {'began', text(fresh_fence), '1'}
