-- Releases the lock, however often it is held, if it is this owner's, and wakes its waiters. What a revoke has left in
-- the lock's place (the owner's field, then an exclamation mark) is released in the same way.
--
-- KEYS  1 the lock   2 its label   3 the latch: it keeps this answer for a request that is sent again
-- ARGV  1 the owner's field   2 the channel   3 PUBLISH or SPUBLISH   4 how long the latch lasts, in ms
--
-- Answers, each ending in the server's time in us:
--   1 listeners   released; -1: this user may not publish, or it was released before
--   0             it was not this owner's

local time = redis.call('TIME')
local now = time[1] * 1000000 + time[2]

local mine = redis.call('HEXISTS', KEYS[1], ARGV[1]) == 1
if not mine then
  local revoked = ARGV[1] .. '!'
  for _, field in ipairs(redis.call('HKEYS', KEYS[1])) do
    if string.sub(field, 1, #revoked) == revoked then mine = true end
  end
end
if not mine then
  if redis.pcall('GET', KEYS[3]) == '1' then return {1, -1, now} end
  return {0, now}
end

redis.call('DEL', KEYS[1], KEYS[2])
-- pcall: if the user has no rights to the channel or to the latch, the lock is released nevertheless.
local listeners = redis.pcall(ARGV[3], ARGV[2], '0')
redis.pcall('SET', KEYS[3], '1', 'PX', ARGV[4])
if type(listeners) == 'table' then listeners = -1 end
return {1, listeners, now}
