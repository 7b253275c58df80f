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

local function next_token()
  if ARGV[4] == 'counter' then return redis.call('INCR', KEYS[2]) end
  return mint()
end

if redis.call('EXISTS', KEYS[1]) == 0 then
  -- The token first: an error must not leave the lock taken. Then the expiry of a key that is not there, which does nothing:
  -- a hash that may not be given one would stay for ever.
  local token = next_token()
  redis.call('PEXPIRE', KEYS[1], ARGV[2])
  redis.call('HSET', KEYS[1], ARGV[1], '1')
  redis.call('PEXPIRE', KEYS[1], ARGV[2])
  -- pcall: a lock is held without its label, too.
  if ARGV[5] ~= '' then redis.pcall('SET', KEYS[3], ARGV[1] .. ' ' .. ARGV[5], 'PX', ARGV[2]) end
  return {1, token, ttl, now}
end

local mine = redis.call('HEXISTS', KEYS[1], ARGV[1]) == 1
if is_read_write() then return refusal() end
local left = redis.call('PTTL', KEYS[1])
if not mine then return {0, left, now} end

-- An attempt that was sent again: the same token, and never less time than is left. (PEXPIRE GT needs Redis 7.) It
-- always writes: WAIT is about a connection's last write.
local token = last and previous or next_token()
left = math.max(left, ttl)
redis.call('PEXPIRE', KEYS[1], string.format('%.0f', left))
redis.call('PEXPIRE', KEYS[3], string.format('%.0f', left))
return {1, token, left, now}
