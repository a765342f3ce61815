-- count_redelivery: count that the sweeper found the pending decision unclaimed.
-- KEYS[1] state (hash)
-- ARGV[1] expected epoch  ARGV[2] token of this call: a call that is sent twice takes effect once
-- ARGV[3] 1 if the caller dispatches the decision again, else 0
-- Return the count, this time included, or 0 if the fence moved.
-- Cost: O(1).
local now = redis.call('HMGET', KEYS[1], 'epoch', 'op_token', 'redeliveries')
if now[1] ~= ARGV[1] then return 0 end
if now[2] == ARGV[2] then return tonumber(now[3]) end
redis.call('HSET', KEYS[1], 'op_token', ARGV[2])
if ARGV[3] == '1' then redis.call('HSET', KEYS[1], 'dispatched_at', redis.call('TIME')[1], 'deferred_epoch', '') end
return redis.call('HINCRBY', KEYS[1], 'redeliveries', 1)
