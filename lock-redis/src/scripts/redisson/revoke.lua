-- Takes the lock from the holder that was shown, and tells the holder and the waiters.
--
-- KEYS  1 the lock   2 its label
-- ARGV  1 the holder's field   2 the channel   3 PUBLISH or SPUBLISH, for that channel
--       4 the field that replaces it until its deadline; empty: free at once   5 the channel of revokes
--       6 the holder's digits
--
-- Answers, each ending in the server's time in us:
--   2 left   revoked; free after this time
--   1        free
--   0        that holder does not hold it
--   -1       without expiry: no lock that ends by itself

if is_read_write() then return refusal() end
local held = redis.call('HEXISTS', KEYS[1], ARGV[1]) == 1
local left = redis.call('PTTL', KEYS[1])
if left == -1 then return {-1, now} end
if not held then return {0, now} end

if ARGV[4] == '' then
  redis.call('DEL', KEYS[1])
elseif ARGV[4] ~= ARGV[1] then
  -- A field that is not there, which does nothing: what may not be taken away must not be refused behind the next step.
  redis.call('HDEL', KEYS[1], ARGV[4])
  -- In this order: a hash without a field is gone, and its expiry with it.
  redis.call('HSET', KEYS[1], ARGV[4], '1')
  redis.call('HDEL', KEYS[1], ARGV[1])
end
-- pcall: the lock is revoked nevertheless.
redis.pcall('DEL', KEYS[2])
redis.pcall(ARGV[3], ARGV[2], '0')
redis.pcall('PUBLISH', ARGV[5], ARGV[6])
if ARGV[4] == '' then return {1, now} end
return {2, left, now}
