-- knock: note items in a task's inbox; urgent ones ask whoever works at the pending turn or calls to end that now.
-- KEYS[1] state (hash)  KEYS[2] inbox (set)
-- ARGV[1] 1 if urgent  ARGV[2] channel of signals  ARGV[3] task id  ARGV[4] epoch of the work that is to end, or ''
-- ARGV[5..] ids of items
-- Returns 1, or 0 if the task is not known.
if #ARGV > 4 then redis.call('SADD', KEYS[2], unpack(ARGV, 5)) end
local now = redis.call('HMGET', KEYS[1], 'epoch', 'cut', 'emitted')
if not now[1] then return 0 end
-- A task that was left goes with all its keys: an inbox that is new has to go with it.
local left = redis.call('PTTL', KEYS[1])
if left > 0 then redis.call('PEXPIRE', KEYS[2], left) end
if ARGV[1] ~= '1' or (ARGV[4] ~= '' and ARGV[4] ~= now[1]) then return 1 end
if now[2] ~= now[1] then
  local time = redis.call('TIME')
  redis.call('HSET', KEYS[1], 'cut', now[1], 'cut_emitted', now[3], 'cut_at', time[1] .. string.format('.%06d', time[2]))
end
redis.call('PUBLISH', ARGV[2], ARGV[3] .. ' ' .. now[1])
return 1
