-- schedule_remove: remove a task from the schedule, if its time is still the one that the caller has seen.
-- KEYS[1] due times of tasks (sorted set)
-- ARGV[1] task id  ARGV[2] its time, as ZSCORE returns it, or '' for any
-- Returns 1 if it is not there any more, 0 if it has another time. Cost: O(log n) in the tasks of the set.
local at = redis.call('ZSCORE', KEYS[1], ARGV[1])
if at and ARGV[2] ~= '' and tonumber(at) ~= tonumber(ARGV[2]) then return 0 end
redis.call('ZREM', KEYS[1], ARGV[1])
return 1
