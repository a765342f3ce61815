-- release: release a turn that has emitted no text, so that the same attempt may be claimed again at once.
-- KEYS[1] state (hash)  KEYS[2] lease (string)
-- ARGV[1] epoch  ARGV[2] token of the owner
-- Return 1 if the turn is released now or this owner released it before; 0 if this owner does not hold the turn, or if
-- the attempt has emitted text, which only a restart voids.
-- Cost: O(1).
local now = redis.call('HMGET', KEYS[1], 'epoch', 'owner', 'emitted', 'released_by')
if now[1] == ARGV[1] and now[2] == '' and now[4] == ARGV[2] then return 1 end
if now[1] ~= ARGV[1] or now[2] ~= ARGV[2] or tonumber(now[3]) > 0 then return 0 end
redis.call('HSET', KEYS[1], 'owner', '', 'released_by', ARGV[2], 'redeliveries', 0,
  'dispatched_at', redis.call('TIME')[1])
redis.call('DEL', KEYS[2])
return 1
