-- renew_call: renew the lease on a tool call.
-- KEYS[1] state (hash)  KEYS[2] calls (hash)  KEYS[3] lease of the call (string)
-- ARGV[1] epoch  ARGV[2] call id  ARGV[3] token of the owner  ARGV[4] lease in ms
-- Return 1, or 0 if this owner does not hold the call.
-- Cost: O(1).
if redis.call('HGET', KEYS[1], 'epoch') ~= ARGV[1] then return 0 end
if redis.call('HGET', KEYS[2], ARGV[2] .. ':owner') ~= ARGV[3] then return 0 end
redis.call('SET', KEYS[3], ARGV[3], 'PX', ARGV[4])
return 1
