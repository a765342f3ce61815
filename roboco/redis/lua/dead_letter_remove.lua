-- dead_letter_remove: remove a dead letter, if it exists.
-- KEYS[1] letters by id (hash)  KEYS[2] ids by the time at which they were stored (sorted set)
-- KEYS[3] bytes of each letter by id, and of all of them in the field "" (hash)
-- ARGV[1] id
-- Return 1 if the letter existed, else 0.
-- Cost: O(log n).
local size = tonumber(redis.call('HGET', KEYS[3], ARGV[1]) or '0')
redis.call('ZREM', KEYS[2], ARGV[1])
if redis.call('HDEL', KEYS[3], ARGV[1]) == 1 then
  redis.call('HINCRBY', KEYS[3], '', -size)
end
return redis.call('HDEL', KEYS[1], ARGV[1])
