-- expire: let the keys of an ended task expire.
-- KEYS[1] state (hash)  KEYS[2..] the other keys of the task
-- ARGV[1] seconds  ARGV[2] generation of its logs
-- Return 1, also if the task does not exist; 0, and change nothing, if it has not ended in this generation.
-- Cost: O(1).
local now = redis.call('HMGET', KEYS[1], 'phase', 'generation')
if now[1] and (now[1] ~= 'end' or now[2] ~= ARGV[2]) then return 0 end
for _, key in ipairs(KEYS) do redis.call('EXPIRE', key, ARGV[1]) end
return 1
