-- schedule_confirm: replace the mark of a schedule that is being filled, if Redis still has it.
-- KEYS[1] sentinel of the schedule (string)
-- ARGV[1] the mark  ARGV[2] its replacement
-- Return 1, also if the mark was replaced before; 0 if Redis has lost the mark or holds another one.
-- Cost: O(1).
local now = redis.call('GET', KEYS[1])
if now ~= ARGV[1] and now ~= ARGV[2] then return 0 end
redis.call('SET', KEYS[1], ARGV[2])
return 1
