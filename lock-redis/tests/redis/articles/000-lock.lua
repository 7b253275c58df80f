-- Redisson's script, verbatim as printed in an article that begins "用锁来做什么?" (an older Redisson).
-- Redisson is licensed under the Apache License 2.0.
--
-- KEYS  1 the lock
-- ARGV  1 the lease in ms   2 <uuid>:<thread>

if (redis.call('exists', KEYS[1]) == 0) then
redis.call('hincrby', KEYS[1], ARGV[2], 1);
redis.call('pexpire', KEYS[1], ARGV[1]);
return nil;
end;
if (redis.call('hexists', KEYS[1], ARGV[2]) == 1) then
redis.call('hincrby', KEYS[1], ARGV[2], 1);
redis.call('pexpire', KEYS[1], ARGV[1]);
return nil;
end;
return redis.call('pttl', KEYS[1]);
