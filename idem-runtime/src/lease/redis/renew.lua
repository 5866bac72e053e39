-- ARGV: attempt, lease, retention, member, scope, key, delivery, fingerprint, message, fence, attempts
if redis.call('EXISTS', KEYS[1]) == 0 then
    -- Redis forgot it. Nobody has begun it since, so the work that is going on is written down again.
    redis.call('HSET', KEYS[1], 'scope', ARGV[5], 'key', ARGV[6], 'fence', ARGV[10], 'attempt', ARGV[1],
        'attempts', ARGV[11], 'begun', text(now))
    set('delivery', ARGV[7])
    set('fingerprint', ARGV[8])
    set('message', ARGV[9])
elseif field('attempt') ~= ARGV[1] or field('fence') ~= ARGV[10] or field('done') then
    return 0
end
redis.call('HSET', KEYS[1], 'until', text(now + ARGV[2]))
keep(tonumber(ARGV[3]), tonumber(ARGV[2]))
redis.call('ZADD', KEYS[2], text(now + ARGV[2]), ARGV[4])
return 1
