-- set_key: SET of a small key of the coordinators, which Redis carries out although its memory is full.
-- KEYS[1] the key (string)
-- ARGV[1] value  ARGV[2...] options of SET
-- Return the answer of SET.
-- Cost: O(1).
return redis.call('SET', KEYS[1], unpack(ARGV))
