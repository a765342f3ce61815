-- inbox_add: add items to the inbox of a task. Urgent items also request the end of the pending turn or calls: workers
-- read the request in their next answer from Redis and receive a signal.
-- A hold ends a pending turn only if no worker has claimed it, so that no step begins after the hold was accepted.
-- The inbox of an unknown task expires. The inbox of an ended task expires with the other keys of the task.
-- KEYS[1] state (hash)  KEYS[2] inbox (set)
-- ARGV[1] '1' if urgent, 'hold' if the items pause the task, else '0'  ARGV[2] channel of signals  ARGV[3] task id
-- ARGV[4] epoch of the work to end, or '' for any  ARGV[5] seconds until an inbox without a task expires
-- ARGV[6..] ids of the items
-- Return 1, or 0 if the task does not exist.
-- Cost: O(ids), at most 500 for each call.
for i = 6, #ARGV do redis.call('SADD', KEYS[2], ARGV[i]) end
local now = redis.call('HMGET', KEYS[1], 'epoch', 'cancel_epoch', 'emitted', 'phase', 'owner')
if not now[1] or now[4] == 'end' then
  local ttl = redis.call('PTTL', KEYS[1])
  redis.call('PEXPIRE', KEYS[2], ttl > 0 and ttl or ARGV[5] * 1000)
  return now[1] and 1 or 0
end
redis.call('PERSIST', KEYS[2])
if ARGV[1] == '0' or (ARGV[4] ~= '' and ARGV[4] ~= now[1]) then return 1 end
if ARGV[1] == 'hold' and (now[4] ~= 'turn' or now[5] ~= '') then return 1 end
if now[2] ~= now[1] then
  local time = redis.call('TIME')
  redis.call('HSET', KEYS[1], 'cancel_epoch', now[1], 'cancel_emitted', now[3],
    'cancel_requested_at', time[1] .. string.format('.%06d', time[2]))
end
redis.call('PUBLISH', ARGV[2], ARGV[3] .. ' ' .. now[1])
return 1
