-- Takes a fair lock, or a place in its queue. The commands and their order are those of the text; the words are ours.
--
-- KEYS: the lock (a hash: owner -> holds), the queue (a list), the deadlines (a sorted set: owner -> the client time at
--       which the others may drop it).
-- ARGV: the lease in ms; the owner; how long a waiter may stand in front, in ms; the client's time in ms; whether the
--       owner waits (1) or not (0).
-- Returns nil if the owner has the lock, else for how many ms it waits.

local lock, queue, deadlines = KEYS[1], KEYS[2], KEYS[3]
local lease, owner = ARGV[1], ARGV[2]
local turn, now, waits = tonumber(ARGV[3]), tonumber(ARGV[4]), ARGV[5] == '1'

-- Waiters in front whose deadline has passed are dropped.
local front = redis.call('LINDEX', queue, 0)
while front and tonumber(redis.call('ZSCORE', deadlines, front)) <= now do
    redis.call('ZREM', deadlines, front)
    redis.call('LPOP', queue)
    front = redis.call('LINDEX', queue, 0)
end

if redis.call('EXISTS', lock) == 0 and (not front or front == owner) then
    redis.call('LPOP', queue)
    redis.call('ZREM', deadlines, owner)
    -- The others have one waiter less in front of them.
    for _, other in ipairs(redis.call('ZRANGE', deadlines, 0, -1)) do
        redis.call('ZINCRBY', deadlines, -turn, other)
    end
    redis.call('HSET', lock, owner, 1)
    redis.call('PEXPIRE', lock, lease)
    return nil
end

if redis.call('HEXISTS', lock, owner) == 1 then
    redis.call('HINCRBY', lock, owner, 1)
    redis.call('PEXPIRE', lock, lease)
    return nil
end

-- The text has no caller that does not wait.
if not waits then
    return redis.call('PTTL', lock)
end

local deadline = redis.call('ZSCORE', deadlines, owner)
if deadline then
    return tonumber(deadline) - turn - now
end

-- The turn of a new waiter begins when that of the last one is over, or the lease of the holder.
local last = redis.call('LINDEX', queue, -1)
local ahead
if last and last ~= owner then
    ahead = tonumber(redis.call('ZSCORE', deadlines, last)) - now
else
    ahead = redis.call('PTTL', lock)
end
if redis.call('ZADD', deadlines, ahead + turn + now, owner) == 1 then
    redis.call('RPUSH', queue, owner)
end
return ahead
