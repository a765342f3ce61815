-- index_progress: replace the progress of rebuilding the task index, if no other worker has.
-- KEYS[1] progress (string)
-- ARGV[1] the expected progress, or '' for none  ARGV[2] the new one
-- Return 1 if it is replaced, or was replaced before; else 0.
-- Cost: O(1).
local now = redis.call('GET', KEYS[1]) or ''
if now == ARGV[2] then return 1 end
if now ~= ARGV[1] then return 0 end
redis.call('SET', KEYS[1], ARGV[2])
return 1
