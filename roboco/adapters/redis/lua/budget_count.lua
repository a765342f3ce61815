-- budget_count: add steps of a task to what its tenant has used on a day, each once.
-- KEYS[1]  hash `tokens`, and `billionths` of the currency: of the tenant on this day
-- KEYS[2]  hash: the position of the newest counted step of each task on this day
-- ARGV[1]  task id
-- ARGV[2]  seconds for which the hashes are kept
-- ARGV[3], [4], [5], ...  position, tokens and billionths of each step, in the order of positions
-- Return the number of steps that were counted now.
-- A sum stops at 9e15: larger numbers are not exact in Lua, and an overflow would refuse each repetition.
-- Cost: O(1) for each step.
local function add(field, amount)
  local sum = tonumber(redis.call('HGET', KEYS[1], field) or 0) + tonumber(amount)
  redis.call('HSET', KEYS[1], field, string.format('%.0f', math.min(sum, 9e15)))
end
local newest, counted = tonumber(redis.call('HGET', KEYS[2], ARGV[1]) or -1), 0
for i = 3, #ARGV, 3 do
  local seq = tonumber(ARGV[i])
  if seq > newest then
    add('tokens', ARGV[i + 1])
    add('billionths', ARGV[i + 2])
    newest, counted = seq, counted + 1
  end
end
if counted > 0 then
  redis.call('HSET', KEYS[2], ARGV[1], newest)
  redis.call('EXPIRE', KEYS[1], ARGV[2])
  redis.call('EXPIRE', KEYS[2], ARGV[2])
end
return counted
