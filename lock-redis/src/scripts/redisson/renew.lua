-- Confirms that the lock is its owner's, keeps it for at least the ttl, and records how often it is held.
--
-- KEYS  1 the lock   2 its label; none if it is at another member of a cluster
-- ARGV  1 the owner's field   2 the ttl in ms   3 the longest ttl that was asked for so far   4 the number of holds
--
-- Answers, each ending in the server's time in us:
--   1 left   held
--   0        gone
--   -1       revoked
--   -2       taken by another owner

local holds = redis.call('HGET', KEYS[1], ARGV[1])
if holds then
  if is_read_write() then return {-2, now} end
  local ttl = tonumber(ARGV[2])
  local left = redis.call('PTTL', KEYS[1])
  -- An administrator removed the expiry (PERSIST). The holder may rely on the longest ttl that it asked for, which a
  -- shorter renewal doesn't name.
  if left == -1 then ttl = tonumber(ARGV[3]) end
  -- A late, shorter renewal must not shorten a later, longer lease. (PEXPIRE GT needs Redis 7.) It always writes: WAIT is
  -- about a connection's last write.
  left = math.max(left, ttl)
  redis.call('PEXPIRE', KEYS[1], string.format('%.0f', left))
  if KEYS[2] then redis.call('PEXPIRE', KEYS[2], string.format('%.0f', left)) end
  -- The number itself, not one more or one less: a request that is sent twice counts once. Behind the expiry, because a
  -- server without memory refuses it in front. pcall: the lock is held whatever is recorded.
  if holds ~= ARGV[4] then redis.pcall('HSET', KEYS[1], ARGV[1], ARGV[4]) end
  return {1, left, now}
end

local fields = redis.call('HKEYS', KEYS[1])
if #fields == 0 then return {0, now} end
-- What a revoke leaves.
for _, field in ipairs(fields) do
  if string.find(field, '!', 1, true) then return {-1, now} end
end
return {-2, now}
