-- cancel_request: whether somebody wants a turn to end.
-- KEYS[1] state (hash)
-- ARGV[1] epoch
-- Returns {time in seconds, chunks emitted by then}, or nothing if nobody does.
local now = redis.call('HMGET', KEYS[1], 'cancel_epoch', 'cancel_requested_at', 'cancel_emitted')
if now[1] ~= ARGV[1] then return false end
return { now[2], now[3] }
