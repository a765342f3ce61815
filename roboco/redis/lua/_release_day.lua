-- release_day: end the reservation of a task for a day, if it has one. A library of other scripts.
--   reserved  hash: for each task "TOKENS BILLIONTHS", and of a caller its steps; `tokens` and `billionths` are the sums
--   ends      sorted set: the tasks by the time, in milliseconds, at which their reservations end
-- Cost: O(log of the reservations).
local function release_day(reserved, ends, task)
  local stored = redis.call('HGET', reserved, task)
  if stored then
    local tokens, billionths = string.match(stored, '^(%d+) (%d+)')
    redis.call('HINCRBY', reserved, 'tokens', string.format('%.0f', 0 - tokens))
    redis.call('HINCRBY', reserved, 'billionths', string.format('%.0f', 0 - billionths))
    redis.call('HDEL', reserved, task)
    redis.call('ZREM', ends, task)
  end
end
