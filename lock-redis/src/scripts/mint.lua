-- What the scripts that take the lock have in common: the deadline, and the token.
--
-- KEYS  1 the lock   2 its token
-- ARGV  1 the owner's value   2 the ttl in ms   3 the deadline, in the server's time in us

if now > tonumber(ARGV[3]) then return {-1, now} end

-- Everything that can fail comes before the lock is taken: an error must not leave it taken.
local ttl = tonumber(ARGV[2])
local last, unfit = read('GET', KEYS[2])
if unfit then return unfit end
-- Only digits: tonumber also accepts "nan", "inf" and "0x10", which can't become a token.
local previous = tonumber(string.match(last or '0', '^%d+$'))
if not previous or previous >= 9007199254740992 then
  return redis.error_reply('WRONGKEY the key beside the lock, ' .. KEYS[2]
    .. ', holds no token; find out which program writes it, and delete the key')
end

-- Returns the next token, which is at least `least`.
local function mint(least)
  local token = math.max(previous + 1, now, least or 0)
  -- Expires an hour after the token, not after now: the key must outlive a clock that is set back.
  redis.call('SET', KEYS[2], string.format('%.0f', token),
    'PXAT', string.format('%.0f', math.floor(token / 1000) + 3600000))
  return token
end

