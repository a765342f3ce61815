-- end_epoch: return the fence of an ended task.
-- KEYS[1] state (hash)
-- Return the epoch of the decision to end, or nil if the task does not exist, was erased, or has not ended.
-- Cost: O(1).
local now = redis.call('HMGET', KEYS[1], 'phase', 'epoch')
return now[1] == 'end' and now[2]
