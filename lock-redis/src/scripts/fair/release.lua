-- Releases the lock, or gives up the owner's place, and wakes the first waiter. What a revoke has left in the lock's place
-- (the owner's 32 digits, then an exclamation mark) is released in the same way.
--
-- KEYS  1 the lock   2 the order of its waiters   3 until when they count as alive; without the last two, the queue is at
--       another member of a cluster
-- ARGV  1 the owner's value   2 the channel   3 PUBLISH or SPUBLISH   4 the owner's place
--
-- Answers, each ending in the server's time in us:
--   1 waiters   released; so many wait; -1: the queue can't be read
--   0           neither the lock nor a place was this owner's

local order, alive = KEYS[2], KEYS[3]
-- A key of another type is not this owner's lock.
local holder = read('GET', KEYS[1])
local revoked = holder and string.sub(holder, 1, 33) == string.sub(ARGV[1], 1, 32) .. '!'
local held = holder and (holder == ARGV[1] or revoked)

-- Gives up the place, and wakes the first waiter if the lock is free by now. Returns how many wait; nil: there was nothing
-- to release.
local function leave()
  local rank, unfit = read('ZRANK', order, ARGV[4])
  if unfit then return unfit end
  if rank then
    redis.call('ZREM', order, ARGV[4])
    redis.call('ZREM', alive, ARGV[4])
  end
  -- A lock that others hold is not released by the place of a waiter.
  if held or rank == 0 then
    purge(order, alive)
    if held or not holder then wake(order, ARGV[2], ARGV[3]) end
  end
  return (held or rank) and redis.call('ZCARD', order)
end

if not held then
  local waiters = order and leave()
  if type(waiters) == 'table' then return waiters end
  if not waiters then return {0, now} end
  return {1, waiters, now}
end

redis.call('DEL', KEYS[1])
-- pcall: whatever has become of the queue, the lock is released. If the first waiter is not known, all are told.
local told, waiters = pcall(leave)
if told and type(waiters) == 'number' then return {1, waiters, now} end
redis.pcall(ARGV[3], ARGV[2], 'released')
return {1, -1, now}
