-- settle: when a request was made, and how many tokens it has used for which some were reserved.
-- KEYS[1] tickets by time (sorted set)  KEYS[2] each ticket's tokens (hash)
-- ARGV[1] ticket  ARGV[2] tokens  ARGV[3] how many ms ago it was made
-- Returns 1, or 0 if its time is long over.
if redis.call('HEXISTS', KEYS[2], ARGV[1]) == 0 then return 0 end
redis.call('HSET', KEYS[2], ARGV[1], ARGV[2])
local time = redis.call('TIME')
local made = time[1] * 1000 + math.floor(time[2] / 1000) - tonumber(ARGV[3])
redis.call('ZADD', KEYS[1], 'XX', 'GT', made, ARGV[1])
return 1
