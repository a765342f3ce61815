-- cancel_request: read the request to end a turn.
-- KEYS[1] state (hash)
-- ARGV[1] epoch
-- Return {time of the request in seconds, chunks emitted by then}, or nil if the end was not requested.
-- Cost: O(1).
local now = redis.call('HMGET', KEYS[1], 'cancel_epoch', 'cancel_requested_at', 'cancel_emitted')
if now[1] ~= ARGV[1] then return false end
return { now[2], now[3] }
