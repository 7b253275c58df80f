-- Runs the commands of the other scripts, on a key that no lock uses, and reports which are refused.
--
-- KEYS  1 a key of a random name, and 2 the one for its token
-- ARGV  1 the channel   2 PUBLISH or SPUBLISH
--
-- Answers: the names of the commands that this user may not run, then the server's time in us; or the first error of
-- another kind.

local time = try('TIME')
local now = time[1] and time[1] * 1000000 + time[2] or 0
try('GET', KEYS[2])
try('SET', KEYS[1], 'rehearsal', 'NX', 'PX', '1000')
try('SET', KEYS[2], '1', 'PX', '1000')
try('PTTL', KEYS[1])
try('PEXPIRE', KEYS[1], '1000')
try(ARGV[2], ARGV[1], 'rehearsal')
try('DEL', KEYS[1])
try('DEL', KEYS[2])
if trouble then return trouble end
refused[#refused + 1] = now
return refused
