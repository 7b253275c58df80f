-- Redisson's script, verbatim as printed in the article "Redisson解锁脚本分析".
-- Redisson is licensed under the Apache License 2.0.
--
-- KEYS  1 the lock   2 the channel
-- ARGV  1 the message   2 the lease in ms   3 <uuid>:<thread>

if (redis.call('hexists', KEYS[1], ARGV[3]) == 0) then return nil;end; local counter = redis.call('hincrby', KEYS[1], ARGV[3], -1); if (counter > 0) then redis.call('pexpire', KEYS[1], ARGV[2]); return 0; else redis.call('del', KEYS[1]); redis.call('publish', KEYS[2], ARGV[1]); return 1; end; return nil;
