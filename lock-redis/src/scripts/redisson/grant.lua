-- Takes the lock if it is free, in Redisson's form: a hash whose field names the holder and counts its holds.
--
-- KEYS  1 the lock   2 its token   3 its label, which has no place in the hash
-- ARGV  1 the owner's field   2 the ttl in ms   3 the deadline, in the server's time in us
--       4 'counter': the token is the counter of Redisson's RFencedLock; 'clock': as in ../grant.lua
--       5 the label; empty: there is none
--
-- Answers, each ending in the server's time in us:
--   1 token left   granted now, or held by this owner already
--   0 left         held by another owner; -1: without expiry
--   -1             the deadline is over

-- TIME is read only once: before Redis 7.2 a second answer would differ.
local time = redis.call('TIME')
local now = time[1] * 1000000 + time[2]
if now > tonumber(ARGV[3]) then return {-1, now} end

-- Everything that can fail is read before the first write: an error must not leave the lock taken.
local ttl = tonumber(ARGV[2])
local last = redis.call('GET', KEYS[2])
-- Only digits: tonumber also accepts "nan", "inf" and "0x10", which can't become a token.
local previous = tonumber(string.match(last or '0', '^%d+$'))
if not previous or previous >= 9007199254740992 then
  return redis.error_reply('WRONGTYPE the key beside the lock, ' .. KEYS[2] .. ', holds no token')
end

local function mint()
  if ARGV[4] == 'counter' then return redis.call('INCR', KEYS[2]) end
  local token = math.max(previous + 1, now)
  -- Expires an hour after the token, not after now: the key must outlive a clock that is set back.
  redis.call('SET', KEYS[2], string.format('%.0f', token),
    'PXAT', string.format('%.0f', math.floor(token / 1000) + 3600000))
  return token
end

if redis.call('EXISTS', KEYS[1]) == 0 then
  redis.call('HSET', KEYS[1], ARGV[1], '1')
  redis.call('PEXPIRE', KEYS[1], ARGV[2])
  if ARGV[5] ~= '' then redis.call('SET', KEYS[3], ARGV[1] .. ' ' .. ARGV[5], 'PX', ARGV[2]) end
  return {1, mint(), ttl, now}
end

local mine = redis.call('HEXISTS', KEYS[1], ARGV[1]) == 1
local left = redis.call('PTTL', KEYS[1])
if not mine then return {0, left, now} end

-- An attempt that was sent again: the same token, and never less time than is left. (PEXPIRE GT needs Redis 7.) It
-- always writes: WAIT is about a connection's last write.
left = math.max(left, ttl)
redis.call('PEXPIRE', KEYS[1], string.format('%.0f', left))
redis.call('PEXPIRE', KEYS[3], string.format('%.0f', left))
return {1, last and previous or mint(), left, now}
