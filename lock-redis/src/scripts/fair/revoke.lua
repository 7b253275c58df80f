-- Takes the lock from the holder that was shown, and tells the holder, and the first waiter if the lock is free.
--
-- KEYS  1 the lock   2 the order of its waiters   3 until when they count as alive
-- ARGV  1 the holder's value   2 the channel   3 PUBLISH or SPUBLISH, for that channel
--       4 the value that replaces it until its deadline; empty: free at once   5 the channel of revokes
--
-- Answers, each ending in the server's time in us:
--   2 left   revoked; free after this time
--   1        free
--   0        that holder does not hold it
--   -1       without expiry: no lock that ends by itself

local holder = redis.call('GET', KEYS[1])
local left = redis.call('PTTL', KEYS[1])
if left == -1 then return {-1, now} end
if holder ~= ARGV[1] then return {0, now} end

if ARGV[4] == '' then
  redis.call('DEL', KEYS[1])
  -- pcall: whatever has become of the queue, the lock is free. If the first waiter is not known, all are told.
  local told = pcall(function()
    purge(KEYS[2], KEYS[3])
    wake(KEYS[2], ARGV[2], ARGV[3])
  end)
  if not told then redis.pcall(ARGV[3], ARGV[2], 'revoked') end
else
  redis.call('SET', KEYS[1], ARGV[4], 'KEEPTTL')
end
redis.pcall('PUBLISH', ARGV[5], string.sub(holder, 1, 32))
if ARGV[4] == '' then return {1, now} end
return {2, left, now}
