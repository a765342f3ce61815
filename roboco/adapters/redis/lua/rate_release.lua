-- rate_release: a ticket's request is not made any more; those behind it move up. One that was made counts on.
-- KEYS[1..] the keys of its buckets; see _bucket.lua
-- ARGV[1] ticket
-- Returns 1.
-- Cost: O(log(tickets that wait)).
for at = 1, #KEYS, 5 do leave(bucket(at), ARGV[1], false) end
return 1
