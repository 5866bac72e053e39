-- ARGV: member, how long ago
if redis.call('EXISTS', KEYS[1]) == 0 then
    -- Forgotten after the retention.
    redis.call('ZREM', KEYS[2], ARGV[1])
    return {}
end
if field('done') or tonumber(field('until')) > now - ARGV[2] then
    return {}
end
return row()
