-- Takes the lock from the owner's predecessor, if that holds it, and mints its token. The lock is not free in between, so
-- no waiter is woken.
--
-- KEYS  1 the lock   2 its token
-- ARGV  1 the owner's value   2 the ttl in ms   3 the deadline, in the server's time in us
--       4 the predecessor's value   5 the channel   6 NUMSUB or SHARDNUMSUB
--
-- Answers, each ending in the server's time in us:
--   1 token left listeners   granted; -1: this user may not ask who listens
--   0                        the predecessor does not hold the lock
--   -1                       the deadline is over

if redis.call('GET', KEYS[1]) ~= ARGV[4] then return {0, now} end

-- The token first: an error must not leave a lock that has none.
local token = mint()
redis.call('SET', KEYS[1], ARGV[1], 'PX', ARGV[2])
-- pcall: a user without the right to this command can have the lock nevertheless.
local listeners = redis.pcall('PUBSUB', ARGV[6], ARGV[5])
return {1, token, ttl, listeners[2] or -1, now}
