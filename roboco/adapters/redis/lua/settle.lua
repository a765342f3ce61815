-- settle: how many tokens a request has used for which some were reserved.
-- KEYS[1] tickets by time (sorted set)  KEYS[2] each ticket's tokens (hash)
-- ARGV[1] ticket  ARGV[2] tokens
-- Returns 1, or 0 if its time is long over.
if redis.call('HEXISTS', KEYS[2], ARGV[1]) == 0 then return 0 end
redis.call('HSET', KEYS[2], ARGV[1], ARGV[2])
return 1
