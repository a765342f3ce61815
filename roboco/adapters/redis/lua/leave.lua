-- leave: remove an ended task after a while.
-- KEYS[1] state (hash)  KEYS[2..] the task's other keys
-- ARGV[1] seconds
-- Returns 1, also if the task is not known; 0, and nothing changed, if it has not ended. Cost: O(1).
local phase = redis.call('HGET', KEYS[1], 'phase')
if phase and phase ~= 'end' then return 0 end
for _, key in ipairs(KEYS) do redis.call('EXPIRE', key, ARGV[1]) end
return 1
