-- schedule_due: read the due tasks, by the clock of this server, earliest first.
-- KEYS[1] due times of tasks (sorted set)
-- ARGV[1] maximum of tasks to return
-- Return {task id, due time in Unix seconds, ...}.
-- Cost: O(log n + ARGV[1]).
local time = redis.call('TIME')
local now = string.format('%.6f', time[1] + time[2] / 1e6)
return redis.call('ZRANGEBYSCORE', KEYS[1], '-inf', now, 'WITHSCORES', 'LIMIT', 0, ARGV[1])
