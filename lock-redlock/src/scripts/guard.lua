-- Behind run.lua; stands before what grants or raises. A server that may have forgotten locks (another run than the
-- marker's, or no marker) sits out the longest ttl from its first request on.
--
-- KEYS  3 the marker   4 the quarantine
-- ARGV  5 the longest ttl in ms
--
-- Answers, each ending in the server's time in us:
--   -2 left      no vote for so long
--   -3 agreed    other clients have agreed on another longest ttl

local known, agreed = string.match(redis.call('GET', KEYS[3]) or '', '^(%x+) (%d+)$')
if agreed and agreed ~= ARGV[5] then return {-3, tonumber(agreed), now} end
if known ~= run then
  -- The quarantine first: the marker must not be there without it.
  redis.call('SET', KEYS[4], '1', 'PX', ARGV[5])
  redis.call('SET', KEYS[3], run .. ' ' .. ARGV[5])
  return {-2, tonumber(ARGV[5]), now}
end
local sits_out = redis.call('PTTL', KEYS[4])
if sits_out ~= -2 then return {-2, sits_out, now} end

