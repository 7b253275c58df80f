-- Releases the lock, however often it is held, if it is this owner's, and wakes its waiters. What a revoke has left in
-- the lock's place (the owner's field, then an exclamation mark) is released in the same way.
--
-- KEYS  1 the lock   2 its label   3 the latch: it keeps this answer for a request that is sent again; without the last two,
--       they are at another member of a cluster
-- ARGV  1 the owner's field   2 the channel   3 PUBLISH or SPUBLISH   4 how long the latch lasts, in ms
--
-- Answers, each ending in the server's time in us:
--   1 listeners   released; -1: this user may not publish, or it was released before
--   0             it was not this owner's

local mine = redis.call('HEXISTS', KEYS[1], ARGV[1]) == 1 and ARGV[1]
if not mine then
  local revoked = ARGV[1] .. '!'
  for _, field in ipairs(redis.call('HKEYS', KEYS[1])) do
    if string.sub(field, 1, #revoked) == revoked then mine = field end
  end
end
if not mine then
  if KEYS[3] and redis.pcall('GET', KEYS[3]) == '1' then return {1, -1, now} end
  return {0, now}
end

-- Its own field, with which a hash that has no other ends: a read/write lock that was granted over it is not this owner's.
redis.call('HDEL', KEYS[1], mine)
-- pcall: if the user has no rights to what is beside it, the lock is released nevertheless.
if KEYS[2] then redis.pcall('DEL', KEYS[2]) end
local listeners = redis.pcall(ARGV[3], ARGV[2], '0')
if KEYS[3] then redis.pcall('SET', KEYS[3], '1', 'PX', ARGV[4]) end
if type(listeners) == 'table' then listeners = -1 end
return {1, listeners, now}
