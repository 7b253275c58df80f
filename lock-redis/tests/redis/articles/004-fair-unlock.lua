-- Redisson's script, verbatim as printed in the article "Redisson源碼解讀-公平鎖", cnblogs.com/konghuanxi, 8 November 2022.
-- Redisson is licensed under the Apache License 2.0.
--
-- KEYS  1 the lock   2 the queue   3 the timeouts   4 the channel
-- ARGV  1 the message   2 the lease in ms   3 <uuid>:<thread>   4 the client's time in ms

while true do
local firstThreadId2 = redis.call('lindex', KEYS[2], 0);
if firstThreadId2 == false then
break;
end;
local timeout = tonumber(redis.call('zscore', KEYS[3], firstThreadId2));
if timeout <= tonumber(ARGV[4]) then
redis.call('zrem', KEYS[3], firstThreadId2);
redis.call('lpop', KEYS[2]);
else
break;
end;
end;
if (redis.call('exists', KEYS[1]) == 0) then
local nextThreadId = redis.call('lindex', KEYS[2], 0);
if nextThreadId ~= false then
redis.call('publish', KEYS[4] .. ':' .. nextThreadId, ARGV[1]);
end;
return 1;
end;
if (redis.call('hexists', KEYS[1], ARGV[3]) == 0) then
return nil;
end;
local counter = redis.call('hincrby', KEYS[1], ARGV[3], -1);
if (counter > 0) then
redis.call('pexpire', KEYS[1], ARGV[2]);
return 0;
end;
redis.call('del', KEYS[1]);
local nextThreadId = redis.call('lindex', KEYS[2], 0);
if nextThreadId ~= false then
redis.call('publish', KEYS[4] .. ':' .. nextThreadId, ARGV[1]);
end;
return 1;
