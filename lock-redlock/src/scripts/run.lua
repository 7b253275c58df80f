-- Reads the server's time and its run_id. Runs before the scripts that use either.

-- TIME is read only once: before Redis 7.2 a second answer would differ.
local time = redis.call('TIME')
local now = time[1] * 1000000 + time[2]

-- Not pcall: a user that may not run INFO must not vote without the guard.
local info = redis.call('INFO', 'server')
local at = string.find(info, 'run_id:', 1, true)
if not at then return redis.error_reply('NOPERM the server does not tell its run_id') end
local run = string.sub(info, at + 7, at + 46)

