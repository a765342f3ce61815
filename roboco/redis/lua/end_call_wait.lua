-- end_call_wait: end the wait of a tool call that was released with a reason. The caller dispatches it.
-- KEYS[1] state (hash)  KEYS[2] calls (hash)  KEYS[3] lease of the call (string)
-- ARGV[1] epoch  ARGV[2] call id  ARGV[3] attempt  ARGV[4] why other calls of the step wait, or ''
-- ARGV[5] token of this call: a call that is sent twice takes effect once
-- Return 1 if the call waited, or 0 if it does not wait, or the fence moved.
-- Cost: O(1).
if redis.call('HGET', KEYS[1], 'epoch') ~= ARGV[1] then return 0 end
local field = ARGV[2] .. ':'
local call = redis.call('HMGET', KEYS[2], field .. 'outcome', field .. 'attempt', field .. 'op_token')
if call[3] == ARGV[5] then return 1 end
if call[1] or (call[2] or '1') ~= ARGV[3] then return 0 end
if not end_call_wait(KEYS[1], KEYS[2], ARGV[1], ARGV[2], ARGV[4]) then return 0 end
redis.call('HSET', KEYS[2], field .. 'op_token', ARGV[5])
redis.call('HSET', KEYS[1], 'dispatched_at', redis.call('TIME')[1])
return 1
