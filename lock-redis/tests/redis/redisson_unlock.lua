-- Releases a lock as Redisson does. Newer versions remember the answer of an unlock in a latch, for when it is sent again.
--
-- KEYS: the lock; the channel; the latch, if there is one.
-- ARGV: the message; the lease in ms; the field of the thread; the latch's life in ms.
-- Returns nil if the thread does not hold the lock, 0 if it still holds it, 1 if it has released it.

local lock, channel, latch = KEYS[1], KEYS[2], KEYS[3]
local message, lease, field, life = ARGV[1], ARGV[2], ARGV[3], ARGV[4]

local function answer(value)
    if latch then
        redis.call('SET', latch, value, 'PX', life)
    end
    return value
end

local before = latch and redis.call('GET', latch)
if before then
    return tonumber(before)
end
if redis.call('HEXISTS', lock, field) == 0 then
    return nil
end
if redis.call('HINCRBY', lock, field, -1) > 0 then
    redis.call('PEXPIRE', lock, lease)
    return answer(0)
end
redis.call('DEL', lock)
redis.call('PUBLISH', channel, message)
return answer(1)
