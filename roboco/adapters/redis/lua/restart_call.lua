-- restart_call: void a tool call's attempt whose lease has ended.
-- KEYS[1] state (hash)  KEYS[2] calls (hash)  KEYS[3] lease of the call (string)
-- ARGV[1] epoch  ARGV[2] call id  ARGV[3] attempt
-- Returns the next attempt, or 0 if there is nothing to void.
if redis.call('HGET', KEYS[1], 'epoch') ~= ARGV[1] or redis.call('EXISTS', KEYS[3]) == 1 then return 0 end
local call = redis.call('HMGET', KEYS[2], ARGV[2] .. ':outcome', ARGV[2] .. ':attempt', ARGV[2] .. ':owner')
if call[1] or (call[2] or '1') ~= ARGV[3] or (call[3] or '') == '' then return 0 end
redis.call('HSET', KEYS[2], ARGV[2] .. ':owner', '', ARGV[2] .. ':attempt', tonumber(ARGV[3]) + 1)
return tonumber(ARGV[3]) + 1
