-- day_usage_count: replace the usage of a task on a day, and correct the sums of its tenant and its caller.
-- KEYS[1]  hash: for each task "STEPS TOKENS BILLIONTHS", its usage on this day after this number of steps
-- KEYS[2]  hash `tokens`, and `billionths` of the currency: of the tenant on this day
-- KEYS[3]  hash of the reservations of tasks  KEYS[4]  sorted set of their ends: see `release_day`
-- KEYS[5], KEYS[6], KEYS[7]  the same as KEYS[2] to KEYS[4] of the caller that created the task, if there is one
-- ARGV[1]  task id
-- ARGV[2]  seconds for which the hashes are kept
-- ARGV[3]  the number of steps of the task
-- ARGV[4]  tokens
-- ARGV[5]  billionths
-- The reply that a newer value counts is not reserved any more. The next turn may have reserved for the caller already.
-- Return 1, or 0 if a value after as many steps, or after more, is stored.
-- A value stops at 9e15: larger numbers are not exact in Lua, and an overflow would refuse each repetition.
-- Cost: O(1).
local function bounded(value)
  return math.min(tonumber(value), 9e15)
end
local stored = redis.call('HGET', KEYS[1], ARGV[1]) or '-1 0 0'
local steps, tokens, billionths = string.match(stored, '^(%-?%d+) (%d+) (%d+)$')
if tonumber(steps) >= tonumber(ARGV[3]) then
  return 0
end
local function add(key, field, before, after)
  local sum = tonumber(redis.call('HGET', key, field) or 0) + bounded(after) - tonumber(before)
  redis.call('HSET', key, field, string.format('%.0f', bounded(sum)))
end
redis.call('HSET', KEYS[1], ARGV[1], string.format('%s %.0f %.0f', ARGV[3], bounded(ARGV[4]), bounded(ARGV[5])))
release_day(KEYS[3], KEYS[4], ARGV[1])
local of_caller = KEYS[6] and redis.call('HGET', KEYS[6], ARGV[1])
if of_caller and tonumber(of_caller:match('%d+$')) < tonumber(ARGV[3]) then
  release_day(KEYS[6], KEYS[7], ARGV[1])
end
for _, i in ipairs(KEYS[5] and {2, 5} or {2}) do
  add(KEYS[i], 'tokens', tokens, ARGV[4])
  add(KEYS[i], 'billionths', billionths, ARGV[5])
  redis.call('EXPIRE', KEYS[i], ARGV[2])
end
redis.call('EXPIRE', KEYS[1], ARGV[2])
return 1
