-- KEYS[1] is the index here. ARGV: how long ago
return redis.call('ZRANGEBYSCORE', KEYS[1], '-inf', text(now - ARGV[1]))
