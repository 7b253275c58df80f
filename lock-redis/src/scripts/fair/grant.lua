-- Takes the lock if it is free and this owner's turn; else gives the owner a place, if it waits.
--
-- KEYS  1 the lock   2 its token   3 the order of its waiters   4 until when they count as alive
-- ARGV  1 the owner's value   2 the ttl in ms   3 the deadline, in the server's time in us   4 the owner's place
--       5 for how long a waiter may be silent, in ms   6 'waits' or 'tries'   7 the channel   8 PUBLISH or SPUBLISH
--
-- Answers, each ending in the server's time in us:
--   1 token left   granted now, or held by this owner already
--   0 left         held by another owner, and -1: without expiry; or free and another owner's turn: -2
--   2 look         it has a place, and is to look again after so many ms
--   -1             the deadline is over

if now > tonumber(ARGV[3]) then return {-1, now} end

-- Everything that can fail is read before the first write: an error must not leave the lock taken.
local ttl, silence = tonumber(ARGV[2]), tonumber(ARGV[5])
local me, order, alive = ARGV[4], KEYS[3], KEYS[4]
local holder = redis.call('GET', KEYS[1])
local last = redis.call('GET', KEYS[2])
local place = redis.call('ZSCORE', order, me)
redis.call('ZSCORE', alive, me)
-- Only digits: tonumber also accepts "nan", "inf" and "0x10", which can't become a token.
local previous = tonumber(string.match(last or '0', '^%d+$'))
if not previous or previous >= 9007199254740992 then
  return redis.error_reply('WRONGTYPE the key beside the lock, ' .. KEYS[2] .. ', holds no token')
end

local function mint()
  local token = math.max(previous + 1, now)
  -- Expires an hour after the token, not after now: the key must outlive a clock that is set back.
  redis.call('SET', KEYS[2], string.format('%.0f', token),
    'PXAT', string.format('%.0f', math.floor(token / 1000) + 3600000))
  return token
end

local left = holder and redis.call('PTTL', KEYS[1]) or -2
if holder == ARGV[1] then
  -- An attempt that was sent again: the same token, and never less time than is left. (PEXPIRE GT needs Redis 7.) It
  -- always writes: WAIT is about a connection's last write.
  left = math.max(left, ttl)
  redis.call('PEXPIRE', KEYS[1], string.format('%.0f', left))
  return {1, last and previous or mint(), left, now}
end
if left == -1 then return {0, -1, now} end

-- An attempt that finds the lock held and does not wait writes nothing.
local waits = ARGV[6] == 'waits'
if holder and not waits then return {0, left, now} end

local until_when = string.format('%.0f', now + silence * 750)
if place then redis.call('ZADD', alive, until_when, me) end
local purged = purge(order, alive)
local head = redis.call('ZRANGE', order, 0, 0)[1]
if not holder and (not head or head == me) then
  if head then
    redis.call('ZREM', order, me)
    redis.call('ZREM', alive, me)
  end
  redis.call('SET', KEYS[1], ARGV[1], 'PX', ARGV[2])
  return {1, mint(), ttl, now}
end
-- The first one may have been behind waiters that were dead.
if not holder and purged > 0 then wake(order, ARGV[7], ARGV[8]) end
if not waits then return {0, -2, now} end

if not place then
  local latest = redis.call('ZRANGE', order, -1, -1, 'WITHSCORES')[2]
  redis.call('ZADD', order, latest and string.format('%.0f', latest + 1) or 1, me)
  redis.call('ZADD', alive, until_when, me)
end
-- If all die, nothing stays. Another client may allow a longer silence.
for _, key in ipairs({order, alive}) do
  if redis.call('PTTL', key) < silence then redis.call('PEXPIRE', key, ARGV[5]) end
end

-- Each waiter looks often enough to count as alive. The first one looks at the end of the lease, and the second one when
-- the first one counts as dead: the one that finds it dead wakes the next.
local look = math.floor(silence / 4)
local rank = redis.call('ZRANK', order, me)
if rank == 0 and holder then look = math.min(look, left + 1) end
if rank == 1 then
  look = math.min(look, math.ceil((redis.call('ZSCORE', alive, head) - now) / 1000) + 1)
end
return {2, look, now}
