-- defer: release a turn until a later time. The same attempt may be claimed again then.
-- KEYS[1] state (hash)  KEYS[2] events (stream, channel)  KEYS[3] lease (string)
-- ARGV[1] epoch  ARGV[2] token of the owner  ARGV[3] delay in ms  ARGV[4] 1 if the model server refused, else 0
-- ARGV[5] reason  ARGV[6] body of the event
-- ARGV[7] tokens in  ARGV[8] tokens out of requests that failed: they are added to those of unfinished replies
-- Return 1 if the turn is deferred now or this owner deferred it before; 0 if this owner does not hold the turn.
-- Cost: O(1).
local now = redis.call('HMGET', KEYS[1], 'epoch', 'owner', 'refused_epoch', 'refusals', 'deferred_by',
  'first_refused_at', 'seq', 'unfinished_seq', 'unfinished_tokens_in', 'unfinished_tokens_out')
if now[1] == ARGV[1] and now[2] == '' and now[5] == ARGV[2] then return 1 end
if now[1] ~= ARGV[1] or now[2] ~= ARGV[2] then return 0 end
local time = redis.call('TIME')
redis.call('HSET', KEYS[1], 'owner', '', 'deferred_by', ARGV[2], 'deferred_epoch', ARGV[1],
  'deferred_until', time[1] + time[2] / 1e6 + ARGV[3] / 1000, 'reason', ARGV[5])
if ARGV[4] == '1' then
  local refusals, at = 0, time[1] + time[2] / 1e6
  if now[3] == ARGV[1] then refusals, at = tonumber(now[4]), tonumber(now[6] or at) end
  redis.call('HSET', KEYS[1], 'refused_epoch', ARGV[1], 'refusals', refusals + 1,
    'first_refused_at', string.format('%.3f', at), 'refused_for', string.format('%.3f', time[1] + time[2] / 1e6 - at))
end
if tonumber(ARGV[7]) + tonumber(ARGV[8]) > 0 then
  local before = now[8] == now[7]
  redis.call('HSET', KEYS[1], 'unfinished_seq', now[7],
    'unfinished_tokens_in', (before and tonumber(now[9]) or 0) + tonumber(ARGV[7]),
    'unfinished_tokens_out', (before and tonumber(now[10]) or 0) + tonumber(ARGV[8]))
end
redis.call('DEL', KEYS[3])
publish(KEYS[1], KEYS[2], 'events', 'chunks', ARGV[6])
return 1
