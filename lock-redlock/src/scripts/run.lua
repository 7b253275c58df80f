-- The time, and as whom the server knows itself: stands before what goes by either.

-- Asked once: before Redis 7.2 a second answer would differ.
local time = redis.call('TIME')
local now = time[1] * 1000000 + time[2]

-- Not pcall: who may not ask never votes unguarded.
local info = redis.call('INFO', 'server')
local at = string.find(info, 'run_id:', 1, true)
if not at then return redis.error_reply('NOPERM the server does not tell its run_id') end
local run = string.sub(info, at + 7, at + 46)

