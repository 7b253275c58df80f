-- Takes the lock on this node if it is free there, and mints its token. Runs after raise.lua.
--
-- KEYS  1 the lock   2 its token   3 the marker   4 the quarantine
-- ARGV  1 the owner's value   2 the ttl in ms   3 the deadline, in the server's time in us   4 the least token,
--       which counts only up to a second, or a tenth of the longest ttl, above the server's time, or 0
--       5 the longest ttl in ms   6 the number of the database   7… the values of this owner's earlier
--       tries
--
-- Answers, each ending in the server's time in us:
--   1 token left           granted now, or held by this owner already
--   0 left holder token    another owner holds it; left is -1 without expiry
--   -1                     the deadline is over

if now > tonumber(ARGV[3]) then return {-1, now} end

-- Everything that can fail is read before the first write: an error must not leave the lock taken.
local ttl = tonumber(ARGV[2])
local last = redis.call('GET', KEYS[2])
-- Only digits: tonumber also accepts "nan", "inf" and "0x10", which can't become a token.
local previous = tonumber(string.match(last or '0', '^%d+$'))
if not previous or previous >= 9007199254740992 then
  return redis.error_reply('WRONGTYPE the key beside the lock, ' .. KEYS[2] .. ', holds no token')
end

local function mint()
  -- A node that has lost its data votes again after the longest ttl. By then its clock has to be above every token, so
  -- none may be far ahead.
  local least = math.min(tonumber(ARGV[4]), now + math.min(1000000, tonumber(ARGV[5]) * 100))
  local token = math.max(previous + 1, now, least)
  -- Expires an hour after the token, not after now: the key must outlive a clock that is set back.
  redis.call('SET', KEYS[2], string.format('%.0f', token),
    'PXAT', string.format('%.0f', math.floor(token / 1000) + 3600000))
  return token
end

local holder = redis.call('GET', KEYS[1])
local is_free = not holder
for nth = 7, #ARGV do
  -- What is left of an earlier try of this owner is taken over, as a grant of its own.
  is_free = is_free or holder == ARGV[nth]
end
if is_free then
  -- The token first: an error must not leave the lock taken.
  local token = mint()
  redis.call('SET', KEYS[1], ARGV[1], 'PX', ARGV[2])
  return {1, token, ttl, now}
end

local left = redis.call('PTTL', KEYS[1])
if holder ~= ARGV[1] then return {0, left, holder, previous, now} end

-- The same grant, asked for again: the same token, and never less time than is left. (PEXPIRE GT needs Redis 7.)
if left < ttl then
  redis.call('PEXPIRE', KEYS[1], ARGV[2])
  left = ttl
end
return {1, last and previous or mint(), left, now}
