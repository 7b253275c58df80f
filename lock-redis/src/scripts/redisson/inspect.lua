-- Shows who holds the lock.
--
-- KEYS  1 the lock   2 its token   3 its label
--
-- Answers: the holder's field or nil, with a space and its label if it has one, the time left in ms, the last token or
-- nil, the server's time in us.

if is_read_write() then return refusal() end
local last, unfit = read('GET', KEYS[2])
if unfit then return unfit end
local holder = redis.call('HKEYS', KEYS[1])[1] or false
-- A key of another type has no label.
local label = holder and read('GET', KEYS[3])
if label and string.sub(label, 1, #holder + 1) == holder .. ' ' then holder = label end
return {holder, redis.call('PTTL', KEYS[1]), last, now}
