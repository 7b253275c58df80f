-- Releases the lock, or gives up the owner's place, and wakes the first waiter. What a revoke has left in the lock's place
-- (the owner's 32 digits, then an exclamation mark) is released in the same way.
--
-- KEYS  1 the lock   2 the order of its waiters   3 until when they count as alive
-- ARGV  1 the owner's value   2 the channel   3 PUBLISH or SPUBLISH   4 the owner's place
--
-- Answers, each ending in the server's time in us:
--   1 waiters   released; so many wait
--   0           neither the lock nor a place was this owner's

local order, alive = KEYS[2], KEYS[3]
local holder = redis.call('GET', KEYS[1])
local revoked = holder and string.sub(holder, 1, 33) == string.sub(ARGV[1], 1, 32) .. '!'
local held = holder and (holder == ARGV[1] or revoked)
if held then redis.call('DEL', KEYS[1]) end
local rank = redis.call('ZRANK', order, ARGV[4])
if rank then
  redis.call('ZREM', order, ARGV[4])
  redis.call('ZREM', alive, ARGV[4])
end
if not held and not rank then return {0, now} end

-- Only now: a lock that others hold is not released by the place of a waiter.
if held or rank == 0 then
  purge(order, alive)
  if held or not holder then wake(order, ARGV[2], ARGV[3]) end
end
return {1, redis.call('ZCARD', order), now}
