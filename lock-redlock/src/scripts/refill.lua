-- Gives the lock back to its owner on a node that has lost it, while a majority of the others keeps it. Runs after
-- lock-redis' mint.lua.
--
-- KEYS  1 the lock   2 its token
-- ARGV  1 the owner's value   2 the ttl in ms   3 the deadline, in the server's time in us   4 the token
--
-- Answers, each ending in the server's time in us:
--   1    this owner holds it
--   0    another owner holds it
--   -1   the deadline is over

local holder = redis.call('GET', KEYS[1])
if holder then return {holder == ARGV[1] and 1 or 0, now} end
-- The token first, as in grant.lua.
local token = tonumber(ARGV[4])
if token > previous then
  redis.call('SET', KEYS[2], ARGV[4], 'PXAT', string.format('%.0f', math.floor(token / 1000) + 3600000))
end
redis.call('SET', KEYS[1], ARGV[1], 'PX', ARGV[2])
return {1, now}
