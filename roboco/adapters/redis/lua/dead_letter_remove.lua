-- Forget a dead letter, if it is there.
--
-- KEYS[1]  hash: letters by id
-- KEYS[2]  sorted set: ids by the time at which they were stored
-- KEYS[3]  hash: bytes of each letter by id, and of all of them in the field ""
-- ARGV[1]  id
--
-- Returns 1 if it was there, else 0.
-- Cost: O(log n).

local size = tonumber(redis.call('HGET', KEYS[3], ARGV[1]) or '0')
redis.call('ZREM', KEYS[2], ARGV[1])
if redis.call('HDEL', KEYS[3], ARGV[1]) == 1 then
  redis.call('HINCRBY', KEYS[3], '', -size)
end
return redis.call('HDEL', KEYS[1], ARGV[1])
