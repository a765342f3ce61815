-- rate_release: remove a waiting ticket whose request will not be sent. Tickets behind it move up. An admitted request
-- stays counted.
-- KEYS[1..] keys of its buckets; see _bucket.lua
-- ARGV[1] ticket
-- Return 1.
-- Cost: O(log(waiting tickets)).
for at = 1, #KEYS, 5 do remove_ticket(bucket(at), ARGV[1], false) end
return 1
