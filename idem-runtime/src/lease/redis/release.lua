-- ARGV: attempt, nobody, member
if field('attempt') ~= ARGV[1] or field('done') then
    return 0
end
redis.call('HSET', KEYS[1], 'until', text(now), 'attempt', ARGV[2])
redis.call('ZADD', KEYS[2], text(now), ARGV[3])
return 1
