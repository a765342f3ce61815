-- erase: remove a task, and refuse to create it for a while.
-- A state without an epoch remains: `create` finds the key, `load` finds no task, and every fence is refused.
-- KEYS[1] state (hash)  KEYS[2..] the other keys of the task
-- ARGV[1] seconds for which the task cannot be created
-- Return the number of keys that existed.
-- Cost: O(keys), and the memory of the task.
local removed = redis.call('DEL', unpack(KEYS))
redis.call('HSET', KEYS[1], 'erased', 1)
redis.call('EXPIRE', KEYS[1], ARGV[1])
return removed
