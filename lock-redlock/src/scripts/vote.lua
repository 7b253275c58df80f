-- Runs after history.lua. Tells whether this node has its vote. Writes nothing.
--
-- KEYS  1 the marker   2 the quarantine
-- ARGV  1 the longest ttl in ms   2 the number of the database
--
-- Answers, each ending in the server's time in us:
--    1 0        it has its vote
--   -1 0        it will have none for the longest ttl, from its first request on
--   -2 left     no vote for so many ms
--   -3 agreed   other clients have agreed on this longest ttl in ms

local known, agreed = string.match(redis.call('GET', KEYS[1]) or '', '^(.*) (%d+)$')
if agreed and agreed ~= ARGV[1] then return {-3, tonumber(agreed), now} end
if known ~= history .. ' ' .. ARGV[2] then return {-1, 0, now} end
local sits_out = redis.call('PTTL', KEYS[2])
if sits_out ~= -2 then return {-2, sits_out, now} end
return {1, 0, now}
