-- Writes a value, unless a later token has already written.
--
-- KEYS  1 the resource   2 the highest token it has seen
-- ARGV  1 the token   2 the value
--
-- Answers nil if it wrote, else the highest token.

local seen = redis.call('GET', KEYS[2])
-- Compared as text: a token is any 64-bit number, and Lua's numbers have 53 bits.
if seen and (#seen > #ARGV[1] or (#seen == #ARGV[1] and seen > ARGV[1])) then return seen end

-- The token first: if the value is refused, the same token may write it again.
if seen ~= ARGV[1] then redis.call('SET', KEYS[2], ARGV[1]) end
redis.call('SET', KEYS[1], ARGV[2])
return nil
