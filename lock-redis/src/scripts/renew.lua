-- Confirms that the lock is its owner's, and keeps it for at least the ttl.
--
-- KEYS  1 the lock
-- ARGV  1 the owner's value   2 the ttl in ms   3 the longest ttl that was asked for so far
--
-- Answers, each ending in the server's time in us:
--   1 left   held
--   0        gone
--   -1       revoked
--   -2       taken by another owner

local time = redis.call('TIME')
local now = time[1] * 1000000 + time[2]

local holder = redis.call('GET', KEYS[1])
if holder == ARGV[1] then
  local ttl = tonumber(ARGV[2])
  local left = redis.call('PTTL', KEYS[1])
  -- An administrator removed the expiry (PERSIST). The holder may rely on the longest ttl that it asked for, which a
  -- shorter renewal doesn't name.
  if left == -1 then ttl = tonumber(ARGV[3]) end
  -- A late, shorter renewal must not shorten a later, longer lease. (PEXPIRE GT needs Redis 7.) It always writes: WAIT is
  -- about a connection's last write.
  left = math.max(left, ttl)
  redis.call('PEXPIRE', KEYS[1], string.format('%.0f', left))
  return {1, left, now}
end

if not holder then return {0, now} end
-- What a revoke leaves: 32 digits, then an exclamation mark.
if string.sub(holder, 33, 33) == '!' then return {-1, now} end
return {-2, now}
