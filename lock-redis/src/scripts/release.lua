-- Releases the lock, if it is this owner's, and wakes its waiters. What a revoke has left in the lock's place (the
-- owner's 32 digits, then an exclamation mark) is released in the same way.
--
-- KEYS  1 the lock
-- ARGV  1 the owner's value   2 the channel   3 PUBLISH or SPUBLISH
--       4 NUMSUB or SHARDNUMSUB, if the waiters are to be told how many they are
--
-- Answers, each ending in the server's time in us:
--   1 listeners   released; -1: this user may not publish
--   0             it was not this owner's

local time = redis.call('TIME')
local now = time[1] * 1000000 + time[2]
local holder = redis.call('GET', KEYS[1])
if not holder then return {0, now} end
local revoked = string.sub(holder, 1, 33) == string.sub(ARGV[1], 1, 32) .. '!'
if holder ~= ARGV[1] and not revoked then return {0, now} end

redis.call('DEL', KEYS[1])
-- pcall: if the user has no rights to the channel, the lock is released nevertheless.
local message = 'released'
local counted = ARGV[4] and redis.pcall('PUBSUB', ARGV[4], ARGV[2])
if counted and counted[2] then message = message .. ' ' .. counted[2] end
local listeners = redis.pcall(ARGV[3], ARGV[2], message)
if type(listeners) == 'table' then listeners = -1 end
return {1, listeners, now}
