-- Runs after history.lua, and before the scripts that set the marker.

-- Sets the marker of this node, which is in this database of the server.
local function set_marker(key, node, database, max_ttl)
  redis.call('SET', key, node .. ' ' .. max_ttl)
  -- What was in this database may be in another one since a SWAPDB. Without its marker it has no vote when it comes back.
  local other = 0
  while redis.pcall('SELECT', other)['ok'] do
    if other ~= tonumber(database) and string.match(redis.call('GET', key) or '', '^%x+ (%d+) ') == database then
      redis.call('DEL', key)
    end
    other = other + 1
  end
  -- A user that may not SELECT is in this database still.
  redis.pcall('SELECT', database)
end

