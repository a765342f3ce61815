-- schedule_confirm: replace a mark, if it is still there.
-- KEYS[1] the sentinel of the schedule (string)
-- ARGV[1] the mark  ARGV[2] what takes its place
-- Returns 1, also if that was done before; 0 if Redis has lost the mark or holds another one. Cost: O(1).
local now = redis.call('GET', KEYS[1])
if now ~= ARGV[1] and now ~= ARGV[2] then return 0 end
redis.call('SET', KEYS[1], ARGV[2])
return 1
