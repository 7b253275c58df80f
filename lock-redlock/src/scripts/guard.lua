-- Runs after marker.lua and before every script that grants or raises. A server that may have forgotten locks (its data has
-- another history than the marker's, or is another database's, or there is no marker) has no vote for the longest ttl,
-- counted from its first request.
--
-- KEYS  3 the marker   4 the quarantine
-- ARGV  5 the longest ttl in ms   6 the number of the database
--
-- Answers, each ending in the server's time in us:
--   -2 left      no vote for so many ms
--   -3 agreed    other clients have agreed on this longest ttl in ms

local node = history .. ' ' .. ARGV[6]
local known, agreed = string.match(redis.call('GET', KEYS[3]) or '', '^(.*) (%d+)$')
if agreed and agreed ~= ARGV[5] then return {-3, tonumber(agreed), now} end
if known ~= node then
  -- The quarantine first: a marker must not exist without it.
  redis.call('SET', KEYS[4], '1', 'PX', ARGV[5])
  set_marker(KEYS[3], node, ARGV[6], ARGV[5])
  return {-2, tonumber(ARGV[5]), now}
end
local sits_out = redis.call('PTTL', KEYS[4])
if sits_out ~= -2 then return {-2, sits_out, now} end

