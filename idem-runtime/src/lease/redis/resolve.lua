-- ARGV: fence, whether it is done, retention, nobody, member
if field('fence') ~= ARGV[1] then
    return 0
end
if field('done') then
    -- The answer to an earlier try may have been lost.
    return (ARGV[2] == '1' and field('attempt') == ARGV[4]) and 1 or 0
end
if tonumber(field('until')) > now then
    return 0
end
redis.call('HSET', KEYS[1], 'attempt', ARGV[4])
if ARGV[2] == '1' then
    redis.call('HSET', KEYS[1], 'done', text(now))
    redis.call('HDEL', KEYS[1], 'message')
    keep(tonumber(ARGV[3]), 0)
    redis.call('ZREM', KEYS[2], ARGV[5])
else
    redis.call('HSET', KEYS[1], 'until', text(now))
    redis.call('ZADD', KEYS[2], text(now), ARGV[5])
end
return 1
