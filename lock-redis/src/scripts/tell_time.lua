-- Tells the time of the server that has the lock.
--
-- KEYS  1 the lock
--
-- Answers the server's time in us.

return {now}
