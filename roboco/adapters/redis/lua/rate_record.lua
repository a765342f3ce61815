-- rate_record: replace the reserved tokens of a request by its used tokens, in the slot in which it was sent.
-- KEYS[1] admission of the ticket (string: "SLOT TOKENS", or "settled")  KEYS[2..] keys of its buckets; see _bucket.lua
-- ARGV[1] used tokens  ARGV[2] ms since the request was sent  ARGV[3] window in ms
-- ARGV[4..] for each bucket: requests for each window, or ''; tokens for each window, or ''
-- Return 1, or 0 if the usage was recorded before or the admission has expired.
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
