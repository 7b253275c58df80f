-- Raises the token of one particular grant to the token that its owner was given. Runs after guard.lua, and before
-- grant.lua in the same script: a node that is asked to raise has granted, and so knows the script already.
--
-- KEYS  1 the lock   2 its token   3 the marker   4 the quarantine
-- ARGV  1 the owner's value   2 the token of the grant on this node   3 the token   4 nothing   5 the longest ttl in ms
--       6 the number of the database
--
-- Answers, each ending in the server's time in us:
--   1   the node's token is that one now
--   0   that grant has ended, and another may have been made since

if ARGV[4] == '' then
  if redis.call('GET', KEYS[1]) ~= ARGV[1] then return {0, now} end
  local token = redis.call('GET', KEYS[2])
  if token == ARGV[3] then return {1, now} end
  -- Comparing the owner alone is not enough: it may have been granted the lock here again, after another owner.
  if token ~= ARGV[2] then return {0, now} end
  redis.call('SET', KEYS[2], ARGV[3], 'PXAT', string.format('%.0f', math.floor(tonumber(ARGV[3]) / 1000) + 3600000))
  return {1, now}
end

