-- fill_finish: remove a fill that has ended.
-- KEYS[1] the fill (hash)
-- ARGV[1] token of the claim of its last position
-- Return 1 if it was removed; 0 if another coordinator has the claim, or the fill is gone.
-- Cost: O(1).
if redis.call('HGET', KEYS[1], 'token') ~= ARGV[1] then return 0 end
return redis.call('DEL', KEYS[1])
