-- KEYS: as in lock.lua, and the beginning of the waiters' channels.
-- ARGV: the message, the lease in ms, the owner, the client's time in ms.
-- Returns nil if the lock is another owner's, 0 if this owner holds it still, 1 if it is free.

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

local function wake_the_next()
    local next = redis.call('lindex', KEYS[2], 0)
    if next ~= false then
        redis.call('publish', KEYS[4] .. ':' .. next, ARGV[1])
    end
end

if redis.call('exists', KEYS[1]) == 0 then
    wake_the_next()
    return 1
end
if redis.call('hexists', KEYS[1], ARGV[3]) == 0 then
    return nil
end
if redis.call('hincrby', KEYS[1], ARGV[3], -1) > 0 then
    redis.call('pexpire', KEYS[1], ARGV[2])
    return 0
end
redis.call('del', KEYS[1])
wake_the_next()
return 1
