-- usage_add: add tokens and cost to the usage of a day.
-- KEYS[1], KEYS[2]  hash  `tokens`, and `millionths` of the currency: of the caller, and of its tenant
-- ARGV[1], ARGV[2]  tokens, and millionths
-- ARGV[3]           seconds for which the hashes are kept
-- Return 0.
-- A sum stops at 9e15: larger numbers are not exact in Lua, and an overflow would refuse each repetition.
-- Cost: O(1).
local function add(key, field, amount)
  local sum = tonumber(redis.call('HGET', key, field) or 0) + tonumber(amount)
  redis.call('HSET', key, field, string.format('%.0f', math.min(sum, 9e15)))
end
for i = 1, 2 do
  add(KEYS[i], 'tokens', ARGV[1])
  add(KEYS[i], 'millionths', ARGV[2])
  redis.call('EXPIRE', KEYS[i], ARGV[3])
end
return 0
