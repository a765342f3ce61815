-- load: a task as it stands, at one moment.
-- KEYS[1] state (hash)  KEYS[2] tail (list)  KEYS[3] inbox (set)  KEYS[4] lease (string)  KEYS[5] calls (hash)
-- ARGV[1] how many of the newest steps to return
-- Returns {state fields, tail, inbox, ms left of a live lease or less than 1, calls fields, the time}, or nothing if the
-- task is not known.
if redis.call('EXISTS', KEYS[1]) == 0 then return false end
return {
  redis.call('HGETALL', KEYS[1]),
  redis.call('LRANGE', KEYS[2], -tonumber(ARGV[1]), -1),
  redis.call('SMEMBERS', KEYS[3]),
  redis.call('PTTL', KEYS[4]),
  redis.call('HGETALL', KEYS[5]),
  redis.call('TIME'),
}
