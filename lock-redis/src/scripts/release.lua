-- Gives the lock up, if it is this owner's, and tells those who wait.
--
-- KEYS  1 the lock
-- ARGV  1 the owner's value   2 the channel
--
-- Answers, each ending in the server's time in us:
--   1 listeners   released; -1: this user may not publish
--   0             it was not this owner's

local time = redis.call('TIME')
local now = time[1] * 1000000 + time[2]
if redis.call('GET', KEYS[1]) ~= ARGV[1] then return {0, now} end

redis.call('DEL', KEYS[1])
-- pcall: a user without rights to the channel has released all the same.
local listeners = redis.pcall('PUBLISH', ARGV[2], 'released')
if type(listeners) == 'table' then listeners = -1 end
return {1, listeners, now}
