-- Runs the commands of the other scripts, on a key that no lock uses, and reports which are refused.
--
-- KEYS  1 a key of a random name, 2 the one for its token, 3 the one for its label, and 4 the one for its latch
-- ARGV  1 the channel   2 PUBLISH or SPUBLISH
--
-- Answers: the names of the commands that this user may not run, then the server's time in us; or the first error of
-- another kind.

local time = try('TIME')
local now = time[1] and time[1] * 1000000 + time[2] or 0
try('GET', KEYS[2])
try('EXISTS', KEYS[1])
try('HSET', KEYS[1], 'rehearsal', '1')
try('HEXISTS', KEYS[1], 'rehearsal')
try('HGET', KEYS[1], 'rehearsal')
try('HKEYS', KEYS[1])
try('HDEL', KEYS[1], 'none')
try('SET', KEYS[2], '1', 'PX', '1000')
try('INCR', KEYS[2])
try('SET', KEYS[3], '1', 'PX', '1000')
try('SET', KEYS[4], '1', 'PX', '1000')
try('PTTL', KEYS[1])
try('PEXPIRE', KEYS[1], '1000')
try(ARGV[2], ARGV[1], 'rehearsal')
for _, key in ipairs(KEYS) do try('DEL', key) end
if trouble then return trouble end
refused[#refused + 1] = now
return refused
