-- rate_pause: let no worker send requests to a model server for a while, because the server demands it.
-- KEYS[1] end of the pause, in ms (string)
-- ARGV[1] length of the pause in ms
-- Return the end of the pause, in ms. A pause that ends later remains.
-- Cost: O(1).
local time = redis.call('TIME')
local till = time[1] * 1000 + math.floor(time[2] / 1000) + tonumber(ARGV[1])
local now = tonumber(redis.call('GET', KEYS[1]) or '0')
if now >= till then return now end
redis.call('SET', KEYS[1], till, 'PX', ARGV[1])
return till
