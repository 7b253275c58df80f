-- Reads which history of its data the server has. Runs before the scripts that use it, and after lock-redis' reading.lua.

-- Not pcall: a user that may not run INFO must not vote without the guard.
local info = redis.call('INFO', 'replication')
if string.find(info, 'role:slave', 1, true) then return redis.error_reply('READONLY the server is a replica') end
-- A server takes another id when it starts, and when it was a replica and is a primary again. The run_id stays the same
-- in the second case, although the data is another server's.
local at = string.find(info, 'master_replid:', 1, true)
if not at then return redis.error_reply('NOPERM the server does not tell its master_replid') end
local history = string.sub(info, at + 14, at + 53)
