-- record_outcome: store the outcome of a tool call, once.
-- KEYS[1] state (hash)  KEYS[2] calls (hash)  KEYS[3] lease of the call (string)  KEYS[4] events (stream, channel)
-- ARGV[1] epoch  ARGV[2] call id  ARGV[3] attempt  ARGV[4] token of the owner, or '' for any owner of this attempt
-- ARGV[5] outcome (JSON)  ARGV[6] body of the event
-- Return the number of outcomes of the step, also if this one was stored before; 0 if this owner does not hold the
-- call.
-- Cost: O(1).
if redis.call('HGET', KEYS[1], 'epoch') ~= ARGV[1] then return 0 end
local call = redis.call('HMGET', KEYS[2], ARGV[2] .. ':outcome', ARGV[2] .. ':attempt', ARGV[2] .. ':owner')
if (call[2] or '1') ~= ARGV[3] or (ARGV[4] ~= '' and call[3] ~= ARGV[4]) then return 0 end
if call[1] then return tonumber(redis.call('HGET', KEYS[2], 'outcomes')) end
redis.call('HSET', KEYS[2], ARGV[2] .. ':outcome', ARGV[5])
redis.call('DEL', KEYS[3])
publish(KEYS[1], KEYS[4], 'events', 'chunks', ARGV[6])
return redis.call('HINCRBY', KEYS[2], 'outcomes', 1)
