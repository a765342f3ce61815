-- release_call: release a tool call, so that the same attempt may be claimed again.
-- KEYS[1] state (hash)  KEYS[2] calls (hash)  KEYS[3] lease of the call (string)  KEYS[4] events (stream, channel)
-- ARGV[1] epoch  ARGV[2] call id  ARGV[3] attempt  ARGV[4] token of the owner
-- ARGV[5] why the call waits, or ''  ARGV[6] body of the event with this reason: sent unless the task has the reason
-- The state counts the calls that wait: the task has a reason until none does.
-- Return 1 if the call is released now or this owner released it before, or 0 if this owner does not hold the call.
-- Cost: O(1).
local now = redis.call('HMGET', KEYS[1], 'epoch', 'reason', 'call_wait_epoch', 'call_waits')
if now[1] ~= ARGV[1] then return 0 end
local field = ARGV[2] .. ':'
local call = redis.call('HMGET', KEYS[2], field .. 'outcome', field .. 'attempt', field .. 'owner',
  field .. 'released_by')
if not call[1] and call[3] == '' and call[4] == ARGV[4] then return 1 end
if call[1] or call[2] ~= ARGV[3] or call[3] ~= ARGV[4] then return 0 end
redis.call('HSET', KEYS[2], field .. 'owner', '', field .. 'released_by', ARGV[4])
redis.call('DEL', KEYS[3])
if ARGV[5] ~= '' then
  local waits = now[3] == ARGV[1] and tonumber(now[4] or 0) or 0
  redis.call('HSET', KEYS[2], field .. 'wait_epoch', ARGV[1])
  redis.call('HSET', KEYS[1], 'call_wait_epoch', ARGV[1], 'call_waits', waits + 1)
end
if ARGV[5] ~= '' and now[2] ~= ARGV[5] then
  redis.call('HSET', KEYS[1], 'reason', ARGV[5])
  publish(KEYS[1], KEYS[4], 'events', 'chunks', ARGV[6])
end
return 1
