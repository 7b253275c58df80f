-- Takes the lock if it is free, and mints its token.
--
-- KEYS  1 the lock   2 its token
-- ARGV  1 the owner's value   2 the ttl in ms   3 the deadline, in the server's time in us
--
-- Answers, each ending in the server's time in us:
--   1 token left   granted now, or held by this owner already
--   0 left         held by another owner; -1: without expiry
--   3 left         the same, and the owner may be another library's, which tells no waiter of its release
--   -1             the deadline is over

local holder = redis.call('GET', KEYS[1])
if not holder then
  -- The token first: an error must not leave the lock taken.
  local token = mint()
  redis.call('SET', KEYS[1], ARGV[1], 'PX', ARGV[2])
  return {1, token, ttl, now}
end

local left = redis.call('PTTL', KEYS[1])
if holder ~= ARGV[1] then
  -- This library writes 32 digits, and with a label a space behind them; after a revoke, an exclamation mark. Without a
  -- label, the value may be another library's.
  local tells = string.match(holder, '^[0-9a-f]+()[ !]') == 33
  return {tells and 0 or 3, left, now}
end

-- An attempt that was sent again: the same token, and never less time than is left. (PEXPIRE GT needs Redis 7.) It
-- always writes: WAIT is about a connection's last write.
local token = last and previous or mint()
left = math.max(left, ttl)
redis.call('PEXPIRE', KEYS[1], string.format('%.0f', left))
return {1, token, left, now}
