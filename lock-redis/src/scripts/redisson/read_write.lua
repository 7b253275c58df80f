-- Redisson's read/write lock is a hash as well, whose field `mode` says how it is held. It looks at that field alone, so it
-- is granted over a lock of this layout.

local function is_read_write()
  return redis.call('HEXISTS', KEYS[1], 'mode') == 1
end

local function refusal()
  return redis.error_reply('WRONGKEY the key ' .. KEYS[1] .. ' is a read/write lock of Redisson (RReadWriteLock), which'
    .. ' does not exclude this one: a name can\'t be both; take another name or prefix')
end

