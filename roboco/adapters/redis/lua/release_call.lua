-- release_call: release a tool call, so that the same attempt may be claimed again.
-- KEYS[1] state (hash)  KEYS[2] calls (hash)  KEYS[3] lease of the call (string)
-- ARGV[1] epoch  ARGV[2] call id  ARGV[3] attempt  ARGV[4] token of the owner
-- ARGV[5] the worker, if it cannot run the call, else ''
-- Return 1, or 0 if this owner does not hold the call.
-- Cost: O(1), and O(length of the names) of `add_decline`.
if redis.call('HGET', KEYS[1], 'epoch') ~= ARGV[1] then return 0 end
local call = redis.call('HMGET', KEYS[2], ARGV[2] .. ':outcome', ARGV[2] .. ':attempt', ARGV[2] .. ':owner')
if call[1] or call[2] ~= ARGV[3] or call[3] ~= ARGV[4] then return 0 end
redis.call('HSET', KEYS[2], ARGV[2] .. ':owner', '')
if ARGV[5] ~= '' then
  local field = ARGV[2] .. ':declined'
  redis.call('HSET', KEYS[2], field, add_decline(redis.call('HGET', KEYS[2], field) or '', ARGV[1], ARGV[5]))
end
redis.call('DEL', KEYS[3])
return 1
