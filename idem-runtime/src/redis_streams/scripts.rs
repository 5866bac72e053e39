//! What is done in Redis in one step. A script runs whole or not at all, and nothing runs beside it.

use redis::Script;
use std::sync::LazyLock;

/// The name under which an entry waits that nobody works on: for its next attempt, or because it was given back.
///
/// Its entries stay pending in the group. When each is due stands in a sorted set.
pub(super) const WAITING: &str = "idem-waiting";

/// Settles one delivery, if it is still the last one of its entry: the same owner, and the same count.
///
/// Keys: the stream, the set of due times, the dead letters. Arguments: what to do, group, consumer, id, count, and what
/// that needs. 1 when it was done, 0 when the delivery belongs to somebody else or to nobody, -1 when the entry itself
/// was deleted.
pub(super) static SETTLE: LazyLock<Script> = LazyLock::new(|| {
    Script::new(
        r"
local what, group, me, id = ARGV[1], ARGV[2], ARGV[3], ARGV[4]
local pending = redis.call('XPENDING', KEYS[1], group, id, id, 1)[1]
if not pending or pending[2] ~= me or pending[4] ~= tonumber(ARGV[5]) then
    return 0
end
if what == 'ack' then
    redis.call('XACK', KEYS[1], group, id)
    if ARGV[6] == '1' then
        redis.call('XDEL', KEYS[1], id)
    end
elseif what == 'extend' then
    if #redis.call('XCLAIM', KEYS[1], group, me, 0, id, 'JUSTID') == 0 then
        return -1
    end
elseif what == 'later' then
    if #redis.call('XRANGE', KEYS[1], id, id) == 0 then
        redis.call('XACK', KEYS[1], group, id)
        return -1
    end
    redis.call('XCLAIM', KEYS[1], group, 'idem-waiting', 0, id, 'RETRYCOUNT', ARGV[6], 'JUSTID')
    local now = redis.call('TIME')
    local due = now[1] * 1000 + math.floor(now[2] / 1000) + ARGV[7]
    redis.call('ZADD', KEYS[2], string.format('%.17g', due), id)
elseif what == 'back' then
    redis.call('XCLAIM', KEYS[1], group, 'idem-waiting', 0, id, 'RETRYCOUNT', ARGV[6], 'JUSTID')
    local ms, seq = string.match(id, '(%d+)-(%d+)')
    redis.call('ZADD', KEYS[2], string.format('%.17g', ms + math.min(seq, 4095) / 4096), id)
elseif what == 'bury' then
    redis.call('XADD', KEYS[3], '*', unpack(ARGV, 6))
    redis.call('XACK', KEYS[1], group, id)
else
    return redis.error_reply('ERR unknown: ' .. what)
end
return 1
",
    )
});

/// Takes what is due, and what nobody has worked on for a lease.
///
/// Keys: the stream, the set of due times. Arguments: group, consumer, lease in milliseconds, where to look on, how many
/// at most. It answers with the entries (id, how often delivered, fields), the ids of those that were deleted while they
/// were pending, where to look on, and in how many milliseconds something else is due (-1 when nothing is).
pub(super) static TAKE: LazyLock<Script> = LazyLock::new(|| {
    Script::new(
        r"
local group, me, lease, cursor, most = ARGV[1], ARGV[2], ARGV[3], ARGV[4], tonumber(ARGV[5])
local page = 100
local taken, gone = {}, {}
local function claim(pending)
    local id = pending[1]
    redis.call('ZREM', KEYS[2], id)
    local entry = redis.call('XCLAIM', KEYS[1], group, me, 0, id)[1]
    if entry and entry[2] then
        taken[#taken + 1] = {id, pending[4] + 1, entry[2]}
    else
        redis.call('XACK', KEYS[1], group, id)
        gone[#gone + 1] = id
    end
end

local time = redis.call('TIME')
local now = time[1] * 1000 + math.floor(time[2] / 1000)
for _, id in ipairs(redis.call('ZRANGEBYSCORE', KEYS[2], '-inf', string.format('%.17g', now), 'LIMIT', 0, most)) do
    local pending = redis.call('XPENDING', KEYS[1], group, id, id, 1)[1]
    if pending and pending[2] == 'idem-waiting' then
        claim(pending)
    else
        redis.call('ZREM', KEYS[2], id)
    end
end

local next = cursor
if #taken < most then
    local idle = redis.call('XPENDING', KEYS[1], group, 'IDLE', lease, cursor, '+', page)
    next = '-'
    if #idle == page then
        next = '(' .. idle[page][1]
    end
    for _, pending in ipairs(idle) do
        if #taken >= most then
            next = pending[1]
            break
        end
        if pending[2] ~= 'idem-waiting' or not redis.call('ZSCORE', KEYS[2], pending[1]) then
            claim(pending)
        end
    end
end

local first, due = redis.call('ZRANGE', KEYS[2], 0, 0, 'WITHSCORES'), -1
if first[2] then
    due = math.max(0, math.ceil(first[2] - now))
end
return {taken, gone, next, due}
",
    )
});

/// What an earlier process by the same name held is due at once. How many there were, of a page.
pub(super) static INHERIT: LazyLock<Script> = LazyLock::new(|| {
    Script::new(
        r"
local mine = redis.call('XPENDING', KEYS[1], ARGV[1], '-', '+', 100, ARGV[2])
for _, pending in ipairs(mine) do
    local id = pending[1]
    redis.call('XCLAIM', KEYS[1], ARGV[1], 'idem-waiting', 0, id, 'JUSTID')
    local ms, seq = string.match(id, '(%d+)-(%d+)')
    redis.call('ZADD', KEYS[2], string.format('%.17g', ms + math.min(seq, 4095) / 4096), id)
end
return #mine
",
    )
});

/// Takes the consumer's name out of the group. With something pending under it, Redis would forget that too.
pub(super) static LEAVE: LazyLock<Script> = LazyLock::new(|| {
    Script::new(
        r"
if #redis.call('XPENDING', KEYS[1], ARGV[1], '-', '+', 1, ARGV[2]) == 0 then
    redis.call('XGROUP', 'DELCONSUMER', KEYS[1], ARGV[1], ARGV[2])
end
return 1
",
    )
});

/// Moves dead letters of one source back.
///
/// Keys: the stream, the dead letters. Arguments: the source, where to look on, the last id, how many at most. It answers
/// with how many were moved, and where to look on; empty at the end.
pub(super) static REDRIVE: LazyLock<Script> = LazyLock::new(|| {
    Script::new(
        r"
local source, most, page = ARGV[1], tonumber(ARGV[4]), 100
local moved, letters = 0, redis.call('XRANGE', KEYS[2], ARGV[2], ARGV[3], 'COUNT', page)
for _, letter in ipairs(letters) do
    if moved >= most then
        return {moved, ''}
    end
    local fields, senders, from = letter[2], {}, nil
    for at = 1, #fields, 2 do
        if fields[at] == 'idem-source' then
            from = fields[at + 1]
        end
        if string.sub(fields[at], 1, 5) ~= 'idem-' then
            senders[#senders + 1] = fields[at]
            senders[#senders + 1] = fields[at + 1]
        end
    end
    if from == source and #senders > 0 then
        redis.call('XADD', KEYS[1], '*', unpack(senders))
        redis.call('XDEL', KEYS[2], letter[1])
        moved = moved + 1
    end
end
if #letters < page then
    return {moved, ''}
end
return {moved, '(' .. letters[page][1]}
",
    )
});
