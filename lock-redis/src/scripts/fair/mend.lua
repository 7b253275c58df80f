-- How the fair lock's queue is kept, and mended if another program or a clock has changed it.

-- Returns for how long the waiter at this place may be silent, in us: three quarters of its grace.
local function silence_of(place)
  -- A text that no client of this library has written is no waiter's. No grace is longer than an hour.
  return math.min(tonumber(string.match(place, '^(%d+):')) or 0, 3600000) * 750
end

-- Lets both sets end by themselves, this grace from now or later: another client may have a longer one.
local function keep(order, alive, grace)
  for _, key in ipairs({order, alive}) do
    if redis.call('PTTL', key) < tonumber(grace) then redis.call('PEXPIRE', key, grace) end
  end
end

-- Returns the first waiter. If it is not known until when it counts as alive, or if that is later than its silence allows,
-- the keys were lost or the clock was set back: then no waiter counts as alive for longer than its silence from now on.
local function first(order, alive, grace)
  local head = redis.call('ZRANGE', order, 0, 0)[1]
  if not head then return nil end
  local function counts(place)
    local until_when = tonumber(redis.call('ZSCORE', alive, place) or 'inf')
    return until_when <= now + silence_of(place)
  end
  if counts(head) then return head end
  -- Before the places: what has no expiry must not be left by a user that may not give it one.
  keep(order, alive, grace)
  for _, place in ipairs(redis.call('ZRANGE', order, 0, -1)) do
    if not counts(place) then redis.call('ZADD', alive, string.format('%.0f', now + silence_of(place)), place) end
  end
  keep(order, alive, grace)
  return head
end

