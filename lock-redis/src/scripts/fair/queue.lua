-- What the scripts of the fair lock have in common. A waiter's place is a member of two sorted sets, which say where in the
-- order it is, and until when it counts as alive. It consists of the waiter's grace in ms, a colon, its client's 16 digits,
-- and the value that it would hold the lock with.

-- Removes the waiters that count as dead, and returns how many there were.
local function purge(order, alive)
  local purged = 0
  repeat
    local dead = redis.call('ZRANGEBYSCORE', alive, '-inf', now, 'LIMIT', 0, 200)
    if #dead > 0 then
      redis.call('ZREM', order, unpack(dead))
      redis.call('ZREM', alive, unpack(dead))
      purged = purged + #dead
    end
  until #dead < 200
  return purged
end

-- Tells the first waiter that its turn has come: the digits of its client, and its own.
local function wake(order, channel, publish)
  local head = redis.call('ZRANGE', order, 0, 0)[1]
  -- pcall: a user without rights to the channel looks instead.
  if head then redis.pcall(publish, channel, string.match(head, '^%d+:(' .. string.rep('%x', 48) .. ')') or 'released') end
end

