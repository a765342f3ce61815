-- fill_claim: claim the next page of a fill of the schedule, by the clock of this server.
-- KEYS[1] the fill (hash)
-- ARGV[1] the fill's mark  ARGV[2] its first position  ARGV[3] token of the caller  ARGV[4] seconds of the claim
-- ARGV[5] milliseconds after which the record of a fill that no coordinator continues expires
-- Return {position, 1 if the caller has the claim now, else 0}. A fill with another mark is replaced.
-- Cost: O(1).
local time = redis.call('TIME')
local now = time[1] + time[2] / 1e6
local mark, position, token, till = unpack(redis.call('HMGET', KEYS[1], 'mark', 'position', 'token', 'until'))
if mark ~= ARGV[1] then
  redis.call('DEL', KEYS[1])
  redis.call('HSET', KEYS[1], 'mark', ARGV[1], 'position', ARGV[2])
  position, token, till = ARGV[2], ARGV[3], '0'
end
if tonumber(till) > now and token ~= ARGV[3] then return {position, 0} end
redis.call('HSET', KEYS[1], 'token', ARGV[3], 'until', string.format('%.6f', now + tonumber(ARGV[4])))
redis.call('PEXPIRE', KEYS[1], ARGV[5])
return {position, 1}
