-- Releases a fair lock. The commands and their order are those of the text; the words are ours.
--
-- KEYS: as in lock.lua, and the beginning of the waiters' channels.
-- ARGV: the message; the lease in ms; the owner; the client's time in ms.
-- Returns nil if the lock is another owner's, 0 if this owner still holds it, 1 if it is free.

local lock, queue, deadlines, channels = KEYS[1], KEYS[2], KEYS[3], KEYS[4]
local message, lease, owner, now = ARGV[1], ARGV[2], ARGV[3], tonumber(ARGV[4])

local front = redis.call('LINDEX', queue, 0)
while front and tonumber(redis.call('ZSCORE', deadlines, front)) <= now do
    redis.call('ZREM', deadlines, front)
    redis.call('LPOP', queue)
    front = redis.call('LINDEX', queue, 0)
end

if redis.call('EXISTS', lock) == 1 then
    if redis.call('HEXISTS', lock, owner) == 0 then
        return nil
    end
    if redis.call('HINCRBY', lock, owner, -1) > 0 then
        redis.call('PEXPIRE', lock, lease)
        return 0
    end
    redis.call('DEL', lock)
end
if front then
    redis.call('PUBLISH', channels .. ':' .. front, message)
end
return 1
