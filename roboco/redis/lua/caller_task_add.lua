-- caller_task_add: add a task to the open tasks of a caller and of its tenant, unless a limit is reached.
-- KEYS[1], KEYS[2]  sorted set  open tasks by the time of their last check, in ms: the caller's, and its tenant's
-- KEYS[3], KEYS[4]  hash        bytes of each of these tasks by id, and of all of them in the field ""
-- ARGV[1]           id of the task                    ARGV[2]  bytes of the task
-- ARGV[3], ARGV[4]  limit of tasks, or '' without one ARGV[5], ARGV[6]  limit of bytes, or '' without one
-- ARGV[7]           seconds for which the keys are kept
-- Return 0, or the index of the limit that is reached: 1 and 2 of tasks, 3 and 4 of bytes; nothing is changed then.
-- Cost: O(log(open tasks)), of which there are at most as many as the limit.
local time = redis.call('TIME')
local now = time[1] * 1000 + math.floor(time[2] / 1000)
local size, totals = tonumber(ARGV[2]), {}
for i = 1, 2 do
  local tasks, bytes = tonumber(ARGV[2 + i]), tonumber(ARGV[4 + i])
  totals[i] = tonumber(redis.call('HMGET', KEYS[2 + i], '')[1] or '0')
  if not redis.call('ZSCORE', KEYS[i], ARGV[1]) then
    if tasks and redis.call('ZCARD', KEYS[i]) >= tasks then return i end
    if bytes and totals[i] > 0 and totals[i] + size > bytes then return 2 + i end
  end
end
for i = 1, 2 do
  if ARGV[2 + i] ~= '' or ARGV[4 + i] ~= '' then
    redis.call('ZADD', KEYS[i], now, ARGV[1])
    local before = tonumber(redis.call('HMGET', KEYS[2 + i], ARGV[1])[1] or '0')
    redis.call('HSET', KEYS[2 + i], ARGV[1], math.max(size, before), '', totals[i] + math.max(0, size - before))
    redis.call('EXPIRE', KEYS[i], ARGV[7])
    redis.call('EXPIRE', KEYS[2 + i], ARGV[7])
  end
end
return 0
