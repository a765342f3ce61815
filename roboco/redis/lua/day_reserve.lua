-- day_reserve: reserve what the next reply of a task may use of the budget of its tenant for a day.
-- KEYS[1]  hash `tokens`, and `billionths` of the currency: used by the tenant on this day
-- KEYS[2]  hash: for each task "TOKENS BILLIONTHS" reserved; `tokens` and `billionths` are the sums
-- KEYS[3]  sorted set: the tasks by the time, in milliseconds, at which their reservations end
-- ARGV[1]  task id. Its earlier reservation ends
-- ARGV[2]  seconds for which the reservation lasts, if no step of the task ends it before; 0 reserves nothing
-- ARGV[3]  seconds for which the keys are kept
-- ARGV[4]  tokens  ARGV[5]  billionths
-- ARGV[6]  the budget in tokens  ARGV[7]  in billionths; '' is no limit
-- Return nothing if the usage is reserved: it fits, or no other task has reserved any. Else return the tokens and
-- billionths that others have reserved.
-- Cost: O(log of the reservations), and the same for each of at most 100 reservations that have ended.
local clock = redis.call('TIME')
local now = clock[1] * 1000 + math.floor(clock[2] / 1000)
for _, task in ipairs(redis.call('ZRANGEBYSCORE', KEYS[3], '-inf', now, 'LIMIT', 0, 100)) do
  release_day(KEYS[2], KEYS[3], task)
end
release_day(KEYS[2], KEYS[3], ARGV[1])
if ARGV[2] == '0' then return {} end
local others = redis.call('HMGET', KEYS[2], 'tokens', 'billionths')
local used = redis.call('HMGET', KEYS[1], 'tokens', 'billionths')
for i = 1, 2 do
  local reserved, limit = tonumber(others[i] or 0), tonumber(ARGV[5 + i])
  if limit and reserved > 0 and tonumber(used[i] or 0) + reserved + tonumber(ARGV[3 + i]) > limit then
    return {others[1], others[2]}
  end
end
redis.call('HSET', KEYS[2], ARGV[1], ARGV[4] .. ' ' .. ARGV[5])
redis.call('HINCRBY', KEYS[2], 'tokens', ARGV[4])
redis.call('HINCRBY', KEYS[2], 'billionths', ARGV[5])
redis.call('ZADD', KEYS[3], now + ARGV[2] * 1000, ARGV[1])
redis.call('EXPIRE', KEYS[2], ARGV[3])
redis.call('EXPIRE', KEYS[3], ARGV[3])
return {}
