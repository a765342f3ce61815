-- ring: count one more handing out of the pending choice.
-- KEYS[1] state (hash)
-- ARGV[1] expected epoch
-- Returns how often it was handed out, this time included; 0 if the fence had moved.
if redis.call('HGET', KEYS[1], 'epoch') ~= ARGV[1] then return 0 end
return redis.call('HINCRBY', KEYS[1], 'rings', 1)
