-- Redisson's script, verbatim as printed in the article "Redisson里面的锁是怎么来防止误删的?" (Redisson 3.2x).
-- Redisson is licensed under the Apache License 2.0.
--
-- KEYS  1 the lock   2 the channel   3 the latch
-- ARGV  1 the message   2 the lease in ms   3 <uuid>:<thread>   4 the command that publishes   5 the latch's life in ms

local val = redis.call('get', KEYS[3]);
if val ~= false then
return tonumber(val);
end;
if (redis.call('hexists', KEYS[1], ARGV[3]) == 0) then
return nil;
end;
local counter = redis.call('hincrby', KEYS[1], ARGV[3], -1);
if (counter > 0) then
redis.call('pexpire', KEYS[1], ARGV[2]);
redis.call('set', KEYS[3], 0, 'px', ARGV[5]);
return 0;
else
redis.call('del', KEYS[1]);
redis.call(ARGV[4], KEYS[2], ARGV[1]);
redis.call('set', KEYS[3], 1, 'px', ARGV[5]);
return 1;
end;
