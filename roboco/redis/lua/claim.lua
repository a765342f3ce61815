-- claim: claim a turn for a worker. Each attempt can be claimed by one owner.
-- The fence makes a late message harmless: a claim whose epoch, seq or attempt is not the pending one is refused.
-- KEYS[1] state (hash)  KEYS[2] tail (list)  KEYS[3] lease (string)
-- ARGV[1] epoch  ARGV[2] seq  ARGV[3] attempt  ARGV[4] token of the owner  ARGV[5] lease in ms
-- ARGV[6] number of the newest steps to return
-- Return {state fields, tail}, or nil if the fence moved, the position is taken, another owner has claimed the attempt,
-- or the end of the turn was requested before the claim.
-- Cost: O(ARGV[6]), at most 64 steps.
local now = redis.call('HMGET', KEYS[1], 'epoch', 'seq', 'attempt', 'phase', 'owner', 'cancel_epoch')
if now[1] ~= ARGV[1] or now[2] ~= ARGV[2] or now[3] ~= ARGV[3] or now[4] ~= 'turn' then return false end
if now[5] ~= '' and now[5] ~= ARGV[4] then return false end
if now[5] == '' and now[6] == ARGV[1] then return false end
if redis.call('HGET', KEYS[1], 'deferred_by') then redis.call('HSET', KEYS[1], 'reason', '') end
redis.call('HSET', KEYS[1], 'owner', ARGV[4], 'deferred_epoch', '')
redis.call('SET', KEYS[3], ARGV[4], 'PX', ARGV[5])
return { redis.call('HGETALL', KEYS[1]), redis.call('LRANGE', KEYS[2], -tonumber(ARGV[6]), -1) }
