-- Takes the lock on this node if it is free there, and mints its token. Runs after raise.lua, and lock-redis' mint.lua.
--
-- KEYS  1 the lock   2 its token   3 the marker   4 the quarantine
-- ARGV  1 the owner's value   2 the ttl in ms   3 the deadline, in the server's time in us   4 the least token,
--       which counts only up to a second, or a tenth of the longest ttl, above the server's time, or 0
--       5 the longest ttl in ms   6 the number of the database   7… the values of this owner's earlier
--       tries
--
-- Answers, each ending in the server's time in us:
--   1 token left           granted now, or held by this owner already
--   0 left holder token    another owner holds it; left is -1 without expiry
--   -1                     the deadline is over

-- A node that has lost its data votes again after the longest ttl. By then its clock has to be above every token, so none may
-- be far ahead.
local least = math.min(tonumber(ARGV[4]), now + math.min(1000000, tonumber(ARGV[5]) * 100))
local holder = redis.call('GET', KEYS[1])
local is_free = not holder
for nth = 7, #ARGV do
  -- What is left of an earlier try of this owner is taken over, as a grant of its own.
  is_free = is_free or holder == ARGV[nth]
end
if is_free then
  -- The token first: an error must not leave the lock taken.
  local token = mint(least)
  redis.call('SET', KEYS[1], ARGV[1], 'PX', ARGV[2])
  return {1, token, ttl, now}
end

local left = redis.call('PTTL', KEYS[1])
if holder ~= ARGV[1] then return {0, left, holder, previous, now} end

-- The same grant, asked for again: the same token, and never less time than is left. (PEXPIRE GT needs Redis 7.)
if left < ttl then
  redis.call('PEXPIRE', KEYS[1], ARGV[2])
  left = ttl
end
return {1, last and previous or mint(least), left, now}
