-- day_reserve: reserve what the next reply of a task may use of the budget of its tenant, or caller, for a day.
-- KEYS[1]  hash `tokens`, and `billionths` of the currency: used by the tenant or caller on this day
-- KEYS[2]  hash: for each task "TOKENS BILLIONTHS" reserved; `tokens` and `billionths` are the sums
-- KEYS[3]  sorted set: the tasks by the time, in milliseconds, at which their reservations end
-- KEYS[4]  of a caller: hash `tokens` and `billionths`, its limits; without it nothing is reserved
-- ARGV[1]  task id. Its earlier reservation ends
-- ARGV[2]  seconds for which the reservation lasts, if no step of the task ends it before; 0 reserves nothing
-- ARGV[3]  seconds for which the keys are kept
-- ARGV[4]  tokens  ARGV[5]  billionths
-- ARGV[6]  the budget in tokens  ARGV[7]  in billionths; '' is no limit
-- ARGV[8]  the number of steps of the task
-- Return nothing if the usage is reserved: it fits, or no other task has reserved any and, of a caller, the limit is not
-- used up. Else return the tokens and billionths that others have reserved.
-- Cost: O(log of the reservations), and the same for each of at most 100 reservations that have ended.
local clock = redis.call('TIME')
local now = clock[1] * 1000 + math.floor(clock[2] / 1000)
for _, task in ipairs(redis.call('ZRANGEBYSCORE', KEYS[3], '-inf', now, 'LIMIT', 0, 100)) do
  release_day(KEYS[2], KEYS[3], task)
end
release_day(KEYS[2], KEYS[3], ARGV[1])
local limits = KEYS[4] and redis.call('HMGET', KEYS[4], 'tokens', 'billionths') or {ARGV[6], ARGV[7]}
if ARGV[2] == '0' or not (limits[1] or limits[2]) then return {} end
local others = redis.call('HMGET', KEYS[2], 'tokens', 'billionths')
local used = redis.call('HMGET', KEYS[1], 'tokens', 'billionths')
for i = 1, 2 do
  local reserved, limit, spent = tonumber(others[i] or 0), tonumber(limits[i] or ''), tonumber(used[i] or 0)
  local full = limit and (reserved > 0 and spent + reserved + tonumber(ARGV[3 + i]) > limit)
  if full or (limit and KEYS[4] and spent >= limit) then
    return {others[1] or 0, others[2] or 0}
  end
end
redis.call('HSET', KEYS[2], ARGV[1], ARGV[4] .. ' ' .. ARGV[5] .. (KEYS[4] and ' ' .. ARGV[8] or ''))
redis.call('HINCRBY', KEYS[2], 'tokens', ARGV[4])
redis.call('HINCRBY', KEYS[2], 'billionths', ARGV[5])
redis.call('ZADD', KEYS[3], now + ARGV[2] * 1000, ARGV[1])
redis.call('EXPIRE', KEYS[2], ARGV[3])
redis.call('EXPIRE', KEYS[3], ARGV[3])
return {}
