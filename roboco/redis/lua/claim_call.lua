-- claim_call: claim a tool call for a worker. Each attempt can be claimed by one owner.
-- KEYS[1] state (hash)  KEYS[2] calls (hash)  KEYS[3] lease of the call (string)
-- ARGV[1] epoch  ARGV[2] call id  ARGV[3] attempt  ARGV[4] token of the owner  ARGV[5] lease in ms
-- Return 1, or 0 if the fence moved, the call has an outcome, another owner has claimed the attempt, or the end of the
-- calls was requested before the claim.
-- Cost: O(1).
local now = redis.call('HMGET', KEYS[1], 'epoch', 'phase', 'cancel_epoch')
if now[1] ~= ARGV[1] or now[2] ~= 'tools' then return 0 end
local call = redis.call('HMGET', KEYS[2], ARGV[2] .. ':outcome', ARGV[2] .. ':attempt', ARGV[2] .. ':owner')
if call[1] or (call[2] or '1') ~= ARGV[3] then return 0 end
if call[3] and call[3] ~= '' and call[3] ~= ARGV[4] then return 0 end
if (call[3] or '') == '' and now[3] == ARGV[1] then return 0 end
redis.call('HSET', KEYS[2], ARGV[2] .. ':owner', ARGV[4], ARGV[2] .. ':attempt', ARGV[3])
end_call_wait(KEYS[1], KEYS[2], ARGV[1], ARGV[2], '')
redis.call('SET', KEYS[3], ARGV[4], 'PX', ARGV[5])
return 1
