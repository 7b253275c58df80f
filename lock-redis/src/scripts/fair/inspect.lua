-- Shows who holds the lock, and who waits.
--
-- KEYS  1 the lock   2 its token   3 the order of its waiters   4 until when they count as alive
--
-- Answers: the holder's value or nil, the time left in ms, the last token or nil, the waiters' places, the first one first,
-- the server's time in us.

local silent, places, last, unfit
silent, unfit = read('ZRANGEBYSCORE', KEYS[4], '-inf', now)
if unfit then return unfit end
places, unfit = read('ZRANGE', KEYS[3], 0, -1)
if unfit then return unfit end
last, unfit = read('GET', KEYS[2])
if unfit then return unfit end

local dead = {}
for _, place in ipairs(silent) do dead[place] = true end
local waiters = {}
for _, place in ipairs(places) do
  if not dead[place] then waiters[#waiters + 1] = place end
end
return {redis.call('GET', KEYS[1]), redis.call('PTTL', KEYS[1]), last, waiters, now}
