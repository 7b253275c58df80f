-- Behind run.lua. Whether this node has its vote. Writes nothing.
--
-- KEYS  1 the marker   2 the quarantine
-- ARGV  1 the longest ttl in ms
--
-- Answers, each ending in the server's time in us:
--    1 0        it has
--   -1 0        from its first request on it will sit out the longest ttl
--   -2 left     no vote for so long
--   -3 agreed   other clients have agreed on another longest ttl

local known, agreed = string.match(redis.call('GET', KEYS[1]) or '', '^(%x+) (%d+)$')
if agreed and agreed ~= ARGV[1] then return {-3, tonumber(agreed), now} end
if known ~= run then return {-1, 0, now} end
local sits_out = redis.call('PTTL', KEYS[2])
if sits_out ~= -2 then return {-2, sits_out, now} end
return {1, 0, now}
