-- load: read a task at one moment.
-- KEYS[1] state (hash)  KEYS[2] tail (list)  KEYS[3] inbox (set)  KEYS[4] lease (string)  KEYS[5] calls (hash)
-- ARGV[1] number of the newest steps to return
-- Return {state fields, tail, inbox, ms left of a live lease or less than 1, fields of calls, server time}, or nil if
-- the task does not exist, or was erased.
-- Cost: O(steps + items + calls): at most 64 steps and about 1,000 items.
if redis.call('EXISTS', KEYS[1]) == 0 or redis.call('HGET', KEYS[1], 'erased') then return false end
return {
  redis.call('HGETALL', KEYS[1]),
  redis.call('LRANGE', KEYS[2], -tonumber(ARGV[1]), -1),
  redis.call('SMEMBERS', KEYS[3]),
  redis.call('PTTL', KEYS[4]),
  redis.call('HGETALL', KEYS[5]),
  redis.call('TIME'),
}
