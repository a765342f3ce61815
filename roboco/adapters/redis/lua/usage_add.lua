-- usage_add: add tokens and cost to the usage of a day.
-- KEYS[1], KEYS[2]  hash  `tokens`, and `millionths` of the currency: of the caller, and of its tenant
-- ARGV[1], ARGV[2]  tokens, and millionths
-- ARGV[3]           seconds for which the hashes are kept
-- Return 0.
-- Cost: O(1).
for i = 1, 2 do
  redis.call('HINCRBY', KEYS[i], 'tokens', ARGV[1])
  redis.call('HINCRBY', KEYS[i], 'millionths', ARGV[2])
  redis.call('EXPIRE', KEYS[i], ARGV[3])
end
return 0
