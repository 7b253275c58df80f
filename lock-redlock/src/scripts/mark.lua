-- Runs after marker.lua. Gives this node its vote at once, because an operator says that no client holds a lock here. A
-- longest ttl that differs from the previous one is agreed on from now on; then the node has no vote for the longer of
-- the two.
--
-- KEYS  1 the marker   2 the quarantine
-- ARGV  1 the longest ttl in ms   2 the number of the database
--
-- Answers, ending in the server's time in us: 1 if anything was changed, how long the node still has no vote.

local node = history .. ' ' .. ARGV[2]
local known, agreed = string.match(redis.call('GET', KEYS[1]) or '', '^(.*) (%d+)$')
if agreed and agreed ~= ARGV[1] then
  local longer = math.max(tonumber(agreed), tonumber(ARGV[1]))
  redis.call('SET', KEYS[2], '1', 'PX', string.format('%.0f', longer))
  set_marker(KEYS[1], node, ARGV[2], ARGV[1])
  return {1, longer, now}
end
if known == node and redis.call('EXISTS', KEYS[2]) == 0 then return {0, 0, now} end
set_marker(KEYS[1], node, ARGV[2], ARGV[1])
redis.call('DEL', KEYS[2])
return {1, 0, now}
