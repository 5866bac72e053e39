-- KEYS[1] is the work, KEYS[2] the index of unfinished work. Instants are milliseconds by Redis' clock.
local time = redis.call('TIME')
local now = tonumber(time[1]) * 1000 + math.floor(tonumber(time[2]) / 1000)
-- A fence for work of which nothing is known: greater than any before a restart that forgot everything. Microseconds, so
-- that two in a row differ; a double holds them exactly.
local fresh_fence = tonumber(time[1]) * 1000000 + tonumber(time[2])

local function text(number)
    return string.format('%.0f', number)
end

-- "+value", or nothing.
local function set(field, optional)
    if optional ~= '' then
        redis.call('HSET', KEYS[1], field, string.sub(optional, 2))
    end
end

local function row()
    local row = redis.call('HMGET', KEYS[1], 'scope', 'key', 'fence', 'attempt', 'attempts', 'delivery',
        'fingerprint', 'message', 'result', 'begun', 'until', 'done', 'keep')
    row[14] = text(now)
    return row
end

local function field(name)
    return redis.call('HGET', KEYS[1], name)
end

-- What is not touched for the retention, and a lease more, is forgotten.
local function keep(retention, lease)
    redis.call('HSET', KEYS[1], 'keep', text(now + retention))
    redis.call('PEXPIRE', KEYS[1], text(retention + lease + 1))
end
