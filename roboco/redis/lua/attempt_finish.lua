-- attempt_finish: end attempts at work.
-- KEYS[1..] for each kind of work: attempts that have not ended (set), lease of the running attempt (string)
-- Return the number of keys that existed.
-- Cost: O(attempts that have not ended), some for each kind of work.
return redis.call('DEL', unpack(KEYS))
