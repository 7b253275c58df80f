-- Runs the commands of the other scripts, on keys that no lock uses, and reports which are refused.
--
-- KEYS  1 a key of a random name, and those for 2 its token, 3 the order of its waiters, 4 until when they count as alive
-- ARGV  1 the channel   2 PUBLISH or SPUBLISH
--
-- Answers: the names of the commands that this user may not run, then the server's time in us; or the first error of
-- another kind.

local time = try('TIME')
local now = time[1] and time[1] * 1000000 + time[2] or 0
try('GET', KEYS[2])
try('SET', KEYS[1], 'rehearsal', 'NX', 'PX', '1000')
try('SET', KEYS[2], '1', 'PX', '1000')
for _, key in ipairs({KEYS[3], KEYS[4]}) do
  try('ZADD', key, 1, 'rehearsal')
  try('ZSCORE', key, 'rehearsal')
  try('ZRANK', key, 'rehearsal')
  try('ZRANGE', key, 0, 0)
  try('ZRANGEBYSCORE', key, 0, 1)
  try('ZCARD', key)
  try('ZREM', key, 'rehearsal')
end
try('PTTL', KEYS[1])
try('PEXPIRE', KEYS[1], '1000')
try(ARGV[2], ARGV[1], 'rehearsal')
for _, key in ipairs(KEYS) do try('DEL', key) end
if trouble then return trouble end
refused[#refused + 1] = now
return refused
