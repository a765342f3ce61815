-- clear_cancellation: nobody wants the pending turn or calls to end any more.
-- KEYS[1] state (hash)
-- ARGV[1] epoch of that work
-- Returns 1, or 0 if the fence had moved or nobody wanted it.
local now = redis.call('HMGET', KEYS[1], 'epoch', 'cancel_epoch')
if now[1] ~= ARGV[1] or now[2] ~= ARGV[1] then return 0 end
redis.call('HDEL', KEYS[1], 'cancel_epoch')
return 1
