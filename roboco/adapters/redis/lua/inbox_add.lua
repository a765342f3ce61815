-- inbox_add: note items in a task's inbox; urgent ones ask whoever works at the pending turn or calls to end that now.
-- A hold ends a pending turn that no worker has taken, so that no step begins after it was accepted.
-- The inbox of a task that is not known is removed after a while, that of a task that was left with its other keys.
-- KEYS[1] state (hash)  KEYS[2] inbox (set)
-- ARGV[1] '1' if urgent, 'hold' if the items hold the task, else '0'  ARGV[2] channel of signals  ARGV[3] task id
-- ARGV[4] epoch of the work that is to end, or ''  ARGV[5] seconds after which an inbox without a task is removed
-- ARGV[6..] ids of items
-- Returns 1, or 0 if the task is not known. Cost: O(ids), of which callers send at most 500.
for i = 6, #ARGV do redis.call('SADD', KEYS[2], ARGV[i]) end
local now = redis.call('HMGET', KEYS[1], 'epoch', 'cancel_epoch', 'emitted', 'phase', 'owner')
if not now[1] or now[4] == 'end' then
  local left = redis.call('PTTL', KEYS[1])
  redis.call('PEXPIRE', KEYS[2], left > 0 and left or ARGV[5] * 1000)
  return now[1] and 1 or 0
end
redis.call('PERSIST', KEYS[2])
if ARGV[1] == '0' or (ARGV[4] ~= '' and ARGV[4] ~= now[1]) then return 1 end
if ARGV[1] == 'hold' and (now[4] ~= 'turn' or now[5] ~= '') then return 1 end
if now[2] ~= now[1] then
  local time = redis.call('TIME')
  redis.call('HSET', KEYS[1], 'cancel_epoch', now[1], 'cancel_emitted', now[3], 'cancel_requested_at', time[1] .. string.format('.%06d', time[2]))
end
redis.call('PUBLISH', ARGV[2], ARGV[3] .. ' ' .. now[1])
return 1
