-- commit: apply a step that is stored in the workspace. The task becomes idle and the fence moves. If a decision
-- follows, record it too, unless the inbox holds an item: the coordinator considers that item first.
-- KEYS[1] state (hash)  KEYS[2] tail (list)  KEYS[3] events (stream, channel)  KEYS[4] lease (string)
-- KEYS[5] calls (hash)  KEYS[6] content (stream)  KEYS[7] inbox (set)
-- ARGV[1] expected epoch  ARGV[2] seq of the step  ARGV[3] step (JSON)  ARGV[4] state of the history after it (JSON)
-- ARGV[5] maximum of the steps and  ARGV[6] of their bytes in the tail; a larger step empties it
-- ARGV[7] number of the newest chunks to keep, or '' for all
-- ARGV[8] number of events that follow  ARGV[9..] bodies of the events, then any decision, for `record_decision`
-- Return 1 if the step is applied now or was applied before; 0 if the fence moved or the position is not the next one;
-- the new epoch (more than 1) if the decision is recorded now or was recorded before.
-- Cost: O(events), and O(trimmed steps and chunks), each once: at most 64 steps, and the chunks since the last trim.
local now = redis.call('HMGET', KEYS[1], 'epoch', 'seq', 'chunks', 'op_token')
local decision = 9 + tonumber(ARGV[8])
if not now[1] then return 0 end
if ARGV[decision] and now[4] == ARGV[decision] then return tonumber(now[1]) end
if tonumber(now[2]) > tonumber(ARGV[2]) then return 1 end
if now[1] ~= ARGV[1] or now[2] ~= ARGV[2] then return 0 end
redis.call('HSET', KEYS[1], 'epoch', tonumber(ARGV[1]) + 1, 'seq', tonumber(ARGV[2]) + 1, 'history_state', ARGV[4],
  'phase', 'idle', 'status', 'running', 'reason', '', 'attempt', 1, 'owner', '', 'emitted', 0, 'redeliveries', 0, 'handovers', 0,
  'dispatched_at', redis.call('TIME')[1])
redis.call('DEL', KEYS[4], KEYS[5])
local steps, bytes = 0, 0
if #ARGV[3] <= tonumber(ARGV[6]) then
  steps = redis.call('RPUSH', KEYS[2], ARGV[3])
  bytes = redis.call('HINCRBY', KEYS[1], 'tail_bytes', #ARGV[3])
else
  redis.call('DEL', KEYS[2])
  redis.call('HSET', KEYS[1], 'tail_bytes', 0)
end
local trimmed = 0
while trimmed < steps - 1 and (steps - trimmed > tonumber(ARGV[5]) or bytes > tonumber(ARGV[6])) do
  bytes = bytes - #redis.call('LRANGE', KEYS[2], trimmed, trimmed)[1]
  trimmed = trimmed + 1
end
if trimmed > 0 then
  redis.call('LTRIM', KEYS[2], trimmed, -1)
  redis.call('HSET', KEYS[1], 'tail_bytes', bytes)
end
if ARGV[7] == '0' then
  redis.call('DEL', KEYS[6])
elseif ARGV[7] ~= '' then
  -- There may be fewer chunks in the log, if it was reset during the turn.
  redis.call('XTRIM', KEYS[6], 'MINID', math.max(0, tonumber(now[3]) - tonumber(ARGV[7]) + 1) .. '-0')
end
for i = 9, decision - 1 do publish(KEYS[1], KEYS[3], 'events', 'chunks', ARGV[i]) end
if not ARGV[decision] or redis.call('SCARD', KEYS[7]) > 0 then return 1 end
return record_decision(KEYS[1], KEYS[3], tonumber(ARGV[1]) + 2, decision)
