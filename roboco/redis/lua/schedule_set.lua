-- schedule_set: set the due time of a task, by the clock of this server.
-- KEYS[1] due times of tasks (sorted set)
-- ARGV[1] task id  ARGV[2] delay in seconds  ARGV[3] '' always, 'LT' if this one is earlier
-- Return 1 if the task had no due time, else 0.
-- Cost: O(log n) in the tasks of the set.
local time = redis.call('TIME')
local at = string.format('%.6f', time[1] + time[2] / 1e6 + tonumber(ARGV[2]))
if ARGV[3] == '' then return redis.call('ZADD', KEYS[1], at, ARGV[1]) end
return redis.call('ZADD', KEYS[1], ARGV[3], at, ARGV[1])
