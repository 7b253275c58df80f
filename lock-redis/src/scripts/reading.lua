-- What scripts read first: the server's time, and keys of which another program may have made something else.

-- TIME is read only once: before Redis 7.2 a second answer would differ.
local time = redis.call('TIME')
local now = time[1] * 1000000 + time[2]

-- Reads a key beside the lock. If it has another type, returns nil and an error that names it: Redis does not say which
-- key it was.
local function read(command, key, ...)
  local answer = redis.pcall(command, key, ...)
  if type(answer) ~= 'table' or not answer.err then return answer end
  if string.find(answer.err, 'WRONGTYPE', 1, true) then
    return nil, redis.error_reply('WRONGKEY the key beside the lock, ' .. key
      .. ', has another type than this library writes; find out which program writes it, and delete the key')
  end
  -- Another error is raised as it is.
  return redis.call(command, key, ...)
end

