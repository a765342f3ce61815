-- renew_attempt: renew the lease of an attempt.
-- KEYS[1] lease of the attempt (string)
-- ARGV[1] lease in ms
-- Return 1, or 0 if the lease has expired.
-- Cost: O(1).
return redis.call('PEXPIRE', KEYS[1], ARGV[1])
