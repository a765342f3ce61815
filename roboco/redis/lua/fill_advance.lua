-- fill_advance: store the position after a page of a fill, and release the page's claim.
-- KEYS[1] the fill (hash)
-- ARGV[1] token of the claim  ARGV[2] next position  ARGV[3] seconds for which no coordinator may claim it
-- Return 1, also if the call was repeated; 0 if another coordinator has the claim, or Redis has lost the fill.
-- Cost: O(1).
local token, position, released = unpack(redis.call('HMGET', KEYS[1], 'token', 'position', 'released'))
if released == ARGV[1] and position == ARGV[2] then return 1 end
if token ~= ARGV[1] then return 0 end
local time = redis.call('TIME')
local till = string.format('%.6f', time[1] + time[2] / 1e6 + tonumber(ARGV[3]))
redis.call('HSET', KEYS[1], 'position', ARGV[2], 'token', '', 'released', ARGV[1], 'until', till)
return 1
