-- Takes a lock as Redisson does: a hash of a field for each holder, whose value is how often it holds the lock.
--
-- KEYS: the lock.
-- ARGV: the lease in ms; the field of the thread.
-- Returns nil if the thread holds the lock, else for how many ms the lock is held.

local lock, lease, field = KEYS[1], ARGV[1], ARGV[2]
local is_free = redis.call('EXISTS', lock) == 0
if is_free or redis.call('HEXISTS', lock, field) == 1 then
    redis.call('HINCRBY', lock, field, 1)
    redis.call('PEXPIRE', lock, lease)
    return nil
end
return redis.call('PTTL', lock)
