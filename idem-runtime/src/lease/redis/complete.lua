-- ARGV: attempt, lease, retention, member, scope, key, delivery, fingerprint, message, fence, attempts, result
if redis.call('EXISTS', KEYS[1]) == 0 then
    -- Redis forgot it. Nobody has begun it since, and it is done.
    redis.call('HSET', KEYS[1], 'scope', ARGV[5], 'key', ARGV[6], 'fence', ARGV[10], 'attempt', ARGV[1],
        'attempts', ARGV[11], 'begun', text(now), 'until', text(now))
    set('delivery', ARGV[7])
    set('fingerprint', ARGV[8])
elseif field('attempt') ~= ARGV[1] or field('fence') ~= ARGV[10] then
    return 0
end
redis.call('HSETNX', KEYS[1], 'done', text(now))
redis.call('HDEL', KEYS[1], 'message')
set('result', ARGV[12])
keep(tonumber(ARGV[3]), 0)
redis.call('ZREM', KEYS[2], ARGV[4])
return 1
