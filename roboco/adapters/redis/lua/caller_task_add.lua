-- caller_task_add: add a task to the open tasks of a caller and of its tenant, unless a limit is reached.
-- KEYS[1], KEYS[2]  sorted set  open tasks by the time of their last check, in ms: the caller's, and its tenant's
-- ARGV[1]           id of the task
-- ARGV[2], ARGV[3]  limit of each, or '' without one
-- ARGV[4]           seconds for which the sets are kept
-- Return 0, or the index of the limit that is reached; nothing is changed then.
-- Cost: O(log(open tasks)), of which there are at most as many as the limit.
local time = redis.call('TIME')
local now = time[1] * 1000 + math.floor(time[2] / 1000)
for i = 1, 2 do
  local limit = tonumber(ARGV[1 + i])
  if limit and not redis.call('ZSCORE', KEYS[i], ARGV[1]) and redis.call('ZCARD', KEYS[i]) >= limit then return i end
end
for i = 1, 2 do
  if ARGV[1 + i] ~= '' then
    redis.call('ZADD', KEYS[i], now, ARGV[1])
    redis.call('EXPIRE', KEYS[i], ARGV[4])
  end
end
return 0
