-- Takes the lock if it is free and this owner's turn; else gives the owner a place, if it waits.
--
-- KEYS  1 the lock   2 its token   3 the order of its waiters   4 until when they count as alive
-- ARGV  1 the owner's value   2 the ttl in ms   3 the deadline, in the server's time in us   4 the owner's place
--       5 its grace, in ms   6 'waits' or 'tries'   7 the channel   8 PUBLISH or SPUBLISH
--
-- Answers, each ending in the server's time in us:
--   1 token left   granted now, or held by this owner already
--   0 left         held by another owner, and -1: without expiry; or free and another owner's turn: -2
--   2 look         it has a place, and is to look again after so many ms
--   -1             the deadline is over

local grace, me, order, alive = ARGV[5], ARGV[4], KEYS[3], KEYS[4]
local holder = redis.call('GET', KEYS[1])
local place, until_when
place, unfit = read('ZSCORE', order, me)
if unfit then return unfit end
until_when, unfit = read('ZSCORE', alive, me)
if unfit then return unfit end

local left = holder and redis.call('PTTL', KEYS[1]) or -2
if holder == ARGV[1] then
  -- An attempt that was sent again: the same token, and never less time than is left. (PEXPIRE GT needs Redis 7.) It
  -- always writes: WAIT is about a connection's last write.
  local token = last and previous or mint()
  left = math.max(left, ttl)
  redis.call('PEXPIRE', KEYS[1], string.format('%.0f', left))
  return {1, token, left, now}
end
if left == -1 then return {0, -1, now} end

-- An attempt that finds the lock held and does not wait writes nothing.
local waits = ARGV[6] == 'waits'
if holder and not waits then return {0, left, now} end

-- XX: only a place that is there. If the server has no memory for writes, it refuses this one, and all that follow.
local latest = string.format('%.0f', now + silence_of(me))
redis.call('ZADD', alive, 'XX', latest, me)
local purged = purge(order, alive)
local head = first(order, alive, grace)
if not holder and (not head or head == me) then
  -- The lock last: an error must not leave it taken.
  local token = mint()
  if head then
    redis.call('ZREM', order, me)
    redis.call('ZREM', alive, me)
  end
  redis.call('SET', KEYS[1], ARGV[1], 'PX', ARGV[2])
  return {1, token, ttl, now}
end
-- The first one may have been behind waiters that were dead.
if not holder and purged > 0 then wake(order, ARGV[7], ARGV[8]) end
if not waits then return {0, -2, now} end

-- If all die, nothing stays. Before the place as well, so that it is not left by a user that may not give it an expiry.
keep(order, alive, grace)
if not place then
  local newest = redis.call('ZRANGE', order, -1, -1, 'WITHSCORES')[2]
  redis.call('ZADD', order, newest and string.format('%.0f', newest + 1) or 1, me)
end
if not place or not until_when then
  redis.call('ZADD', alive, latest, me)
  keep(order, alive, grace)
end

-- Each waiter looks often enough to count as alive. The first one looks at the end of the lease, and the second one when
-- the first one counts as dead: the one that finds it dead wakes the next.
local look = math.floor(tonumber(grace) / 4)
local rank = redis.call('ZRANK', order, me)
if rank == 0 and holder then look = math.min(look, left + 1) end
if rank == 1 then
  look = math.min(look, math.ceil((redis.call('ZSCORE', alive, head) - now) / 1000) + 1)
end
return {2, look, now}
