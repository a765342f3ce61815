-- rate_record: when a request was made, and how many tokens it has used for which some were reserved.
-- KEYS[1] the ticket's mark (string: "SLOT TOKENS", or "settled")  KEYS[2..] the keys of its buckets; see _bucket.lua
-- ARGV[1] tokens  ARGV[2] how many ms ago it was made  ARGV[3] the window in ms
-- ARGV[4..] of each bucket: requests a window, or ''; tokens a window, or ''
-- Returns 1, or 0 if that was said before, or its time is over.
-- Cost: O(1).
local slot, reserved = (redis.call('GET', KEYS[1]) or ''):match('^(%d+) (%d+)$')
if not slot then return 0 end
local width, now = ARGV[3] / SLOTS, clock()
local made = math.max(tonumber(slot), math.floor((now - ARGV[2]) / width))
for at = 2, #KEYS, 5 do
  local of = bucket(at, ARGV[4 + (at - 2) / 5 * 2], ARGV[5 + (at - 2) / 5 * 2])
  redis.call('HINCRBY', of.used, slot .. 'r', -1)
  redis.call('HINCRBY', of.used, slot .. 't', -math.min(tonumber(reserved), of.tokens or math.huge))
  redis.call('HINCRBY', of.used, string.format('%dr', made), 1)
  redis.call('HINCRBY', of.used, string.format('%dt', made), ARGV[1])
  redis.call('PEXPIRE', of.used, 2 * ARGV[3])
end
redis.call('SET', KEYS[1], 'settled', 'PX', math.max(1, math.ceil((made + 1) * width + ARGV[3] - now)))
return 1
