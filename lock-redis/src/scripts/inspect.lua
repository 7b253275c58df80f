-- Shows who holds the lock.
--
-- KEYS  1 the lock   2 its token
--
-- Answers: the holder's value or nil, the time left in ms, the last token or nil, the server's time in us.

local time = redis.call('TIME')
local now = time[1] * 1000000 + time[2]
return {redis.call('GET', KEYS[1]), redis.call('PTTL', KEYS[1]), redis.call('GET', KEYS[2]), now}
