-- clear_cancellation: withdraw the request to end the pending turn or calls.
-- KEYS[1] state (hash)
-- ARGV[1] epoch of that work
-- Return 1, or 0 if the fence moved or the end was not requested.
-- Cost: O(1).
local now = redis.call('HMGET', KEYS[1], 'epoch', 'cancel_epoch')
if now[1] ~= ARGV[1] or now[2] ~= ARGV[1] then return 0 end
redis.call('HDEL', KEYS[1], 'cancel_epoch')
return 1
