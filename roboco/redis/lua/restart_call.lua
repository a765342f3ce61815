-- restart_call: void an attempt at a tool call whose lease has expired, or whose worker is known to be gone.
-- KEYS[1] state (hash)  KEYS[2] calls (hash)  KEYS[3] lease of the call (string)
-- ARGV[1] epoch  ARGV[2] call id  ARGV[3] attempt
-- ARGV[4] token of this call: a call that is sent twice takes effect once  ARGV[5] 1 if the worker is known to be gone
-- Return the next attempt, or 0 if there is nothing to void.
-- Cost: O(1).
if redis.call('HGET', KEYS[1], 'epoch') ~= ARGV[1] then return 0 end
local field = ARGV[2] .. ':'
local call = redis.call('HMGET', KEYS[2], field .. 'outcome', field .. 'attempt', field .. 'owner', field .. 'op_token')
if call[4] == ARGV[4] then return tonumber(call[2]) end
if call[1] or (call[2] or '1') ~= ARGV[3] or (call[3] or '') == '' then return 0 end
if ARGV[5] ~= '1' and redis.call('EXISTS', KEYS[3]) == 1 then return 0 end
redis.call('DEL', KEYS[3])
redis.call('HSET', KEYS[2], field .. 'owner', '', field .. 'attempt', tonumber(ARGV[3]) + 1,
  field .. 'op_token', ARGV[4])
redis.call('HSET', KEYS[1], 'dispatched_at', redis.call('TIME')[1])
return tonumber(ARGV[3]) + 1
