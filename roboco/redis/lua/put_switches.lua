-- put_switches: store the switches, unless newer ones are stored.
-- KEYS[1] switches (hash)
-- ARGV[1] revision  ARGV[2] switches (JSON)
-- Return 1 if these switches are stored now, else 0.
-- Cost: O(1).
local stored = redis.call('HGET', KEYS[1], 'revision')
if stored and tonumber(stored) > tonumber(ARGV[1]) then return 0 end
redis.call('HSET', KEYS[1], 'revision', ARGV[1], 'switches', ARGV[2])
return 1
