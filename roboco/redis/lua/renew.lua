-- renew: renew the lease on a turn.
-- KEYS[1] state (hash)  KEYS[2] lease (string)
-- ARGV[1] epoch  ARGV[2] token of the owner  ARGV[3] lease in ms  ARGV[4] note about the turn in progress, or ''
-- Return the lease status: 1 held, 2 held with a request to end the turn, 0 lost.
-- Cost: O(1).
local now = redis.call('HMGET', KEYS[1], 'epoch', 'owner', 'cancel_epoch')
if now[1] ~= ARGV[1] or now[2] ~= ARGV[2] then return 0 end
redis.call('SET', KEYS[2], ARGV[2], 'PX', ARGV[3])
if ARGV[4] ~= '' then redis.call('HSET', KEYS[1], 'note_epoch', ARGV[1], 'note', ARGV[4]) end
return now[3] == ARGV[1] and 2 or 1
