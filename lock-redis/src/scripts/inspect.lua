-- Shows who holds the lock.
--
-- KEYS  1 the lock   2 its token
--
-- Answers: the holder's value or nil, the time left in ms, the last token or nil, the server's time in us.

local last, unfit = read('GET', KEYS[2])
if unfit then return unfit end
return {redis.call('GET', KEYS[1]), redis.call('PTTL', KEYS[1]), last, now}
