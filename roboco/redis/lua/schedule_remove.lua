-- schedule_remove: remove a task from the schedule, if its due time is the one that the caller has read.
-- KEYS[1] due times of tasks (sorted set)
-- ARGV[1] task id  ARGV[2] its due time, as ZSCORE returns it, or '' for any
-- Return 1 if the schedule does not hold the task any more, 0 if the task has another due time.
-- Cost: O(log n) in the tasks of the set.
local at = redis.call('ZSCORE', KEYS[1], ARGV[1])
if at and ARGV[2] ~= '' and tonumber(at) ~= tonumber(ARGV[2]) then return 0 end
redis.call('ZREM', KEYS[1], ARGV[1])
return 1
