-- KEYS: the lock (a hash: owner -> count), the queue (a list), the timeouts (a sorted set).
-- ARGV: the lease in ms, the owner, how long one waiter may stand at the head in ms, the client's time in ms,
--       whether the owner waits (1) or not (0).
-- Returns nil if the lock is the owner's, otherwise for how long to wait.

-- Remove waiters at the head whose time is over.
while true do
    local first = redis.call('lindex', KEYS[2], 0)
    if first == false then
        break
    end
    local timeout = tonumber(redis.call('zscore', KEYS[3], first))
    if timeout <= tonumber(ARGV[4]) then
        redis.call('zrem', KEYS[3], first)
        redis.call('lpop', KEYS[2])
    else
        break
    end
end

-- It is free, and no other waiter is before this one.
if redis.call('exists', KEYS[1]) == 0
    and (redis.call('exists', KEYS[2]) == 0 or redis.call('lindex', KEYS[2], 0) == ARGV[2]) then
    redis.call('lpop', KEYS[2])
    redis.call('zrem', KEYS[3], ARGV[2])
    -- All others have one waiter less before them.
    local waiters = redis.call('zrange', KEYS[3], 0, -1)
    for i = 1, #waiters, 1 do
        redis.call('zincrby', KEYS[3], -tonumber(ARGV[3]), waiters[i])
    end
    redis.call('hset', KEYS[1], ARGV[2], 1)
    redis.call('pexpire', KEYS[1], ARGV[1])
    return nil
end

-- The owner enters again.
if redis.call('hexists', KEYS[1], ARGV[2]) == 1 then
    redis.call('hincrby', KEYS[1], ARGV[2], 1)
    redis.call('pexpire', KEYS[1], ARGV[1])
    return nil
end

-- The text leaves this out, the half for a caller that does not wait.
if ARGV[5] == '0' then
    return redis.call('pttl', KEYS[1])
end

-- It is in the queue already.
local timeout = redis.call('zscore', KEYS[3], ARGV[2])
if timeout ~= false then
    return timeout - tonumber(ARGV[3]) - tonumber(ARGV[4])
end

-- To the end of the queue. Its time begins when that of the waiter before it is over, or the lease of the holder.
local last = redis.call('lindex', KEYS[2], -1)
local ttl
if last ~= false and last ~= ARGV[2] then
    ttl = tonumber(redis.call('zscore', KEYS[3], last)) - tonumber(ARGV[4])
else
    ttl = redis.call('pttl', KEYS[1])
end
timeout = ttl + tonumber(ARGV[3]) + tonumber(ARGV[4])
if redis.call('zadd', KEYS[3], timeout, ARGV[2]) == 1 then
    redis.call('rpush', KEYS[2], ARGV[2])
end
return ttl
