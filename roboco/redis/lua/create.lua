-- create: create a task, idle, with its newest steps. If the task exists, change nothing. If a decision follows, record
-- it too, unless the inbox holds an item: the coordinator considers that item first.
-- The fence starts at the time in ms, or above an earlier fence, so that no epoch is used twice, even if Redis was
-- emptied. The epoch also names the generation of the logs, so that generations sort by time.
-- KEYS[1] state (hash)  KEYS[2] tail (list)  KEYS[3] events (stream, channel)  KEYS[4] content (stream)
-- KEYS[5] inbox (set)
-- ARGV[1] an earlier epoch of the task, or 0  ARGV[2] seq, the position of the next step
-- ARGV[3] state of the history (JSON)  ARGV[4] first step (JSON)  ARGV[5] status
-- ARGV[6] number of steps that follow  ARGV[7] number of events after them  ARGV[8..] the steps (JSON), the bodies of
-- the events, then any decision, for `record_decision`
-- Return 1; 0 if the task exists, or was erased lately; the epoch (more than 1) if the decision is recorded now or was
-- recorded before.
-- Cost: O(steps + events), at most 64 steps.
local steps, events = tonumber(ARGV[6]), tonumber(ARGV[7])
local decision = 8 + steps + events
if redis.call('EXISTS', KEYS[1]) == 1 then
  local now = redis.call('HMGET', KEYS[1], 'epoch', 'op_token')
  return ARGV[decision] and now[2] == ARGV[decision] and tonumber(now[1]) or 0
end
local time = redis.call('TIME')
local epoch = math.max(time[1] * 1000 + math.floor(time[2] / 1000), tonumber(ARGV[1]) + 1)
redis.call('PERSIST', KEYS[5])
redis.call('DEL', KEYS[2], KEYS[3], KEYS[4])
redis.call('HSET', KEYS[1], 'generation', string.format('%012x', epoch), 'epoch', epoch, 'seq', ARGV[2],
  'history_state', ARGV[3], 'first_step', ARGV[4], 'status', ARGV[5], 'phase', 'idle', 'attempt', 1,
  'owner', '', 'emitted', 0, 'redeliveries', 0, 'dispatched_at', time[1], 'chunks', 0, 'events', 0, 'op_token', '',
  'reason', '', 'agent', '', 'routing', '{}')
local bytes = 0
for i = 8, 7 + steps do
  redis.call('RPUSH', KEYS[2], ARGV[i])
  bytes = bytes + #ARGV[i]
end
redis.call('HSET', KEYS[1], 'tail_bytes', bytes)
for i = 8 + steps, decision - 1 do publish(KEYS[1], KEYS[3], 'events', 'chunks', ARGV[i]) end
if not ARGV[decision] or redis.call('SCARD', KEYS[5]) > 0 then return 1 end
return record_decision(KEYS[1], KEYS[3], epoch + 1, decision)
