-- rate_record: replace the reserved tokens of a request by its used tokens, in the slot in which it was sent.
-- KEYS[1] admission of the ticket (string: "SLOT TOKENS", or "settled")  KEYS[2..] keys of its buckets; see _bucket.lua
-- ARGV[1] used tokens  ARGV[2] ms since the request was sent  ARGV[3] window in ms
-- ARGV[4] width of a slot in ms
-- ARGV[5..] for each bucket: requests for each window, or ''; tokens for each window, or ''
-- Return 1, or 0 if the usage was recorded before or the admission has expired.
-- Cost: O(1).
local slot, reserved = (redis.call('GET', KEYS[1]) or ''):match('^(%d+) (%d+)$')
if not slot then return 0 end
slot = tonumber(slot)
local used, window, width, now = tonumber(ARGV[1]), tonumber(ARGV[3]), tonumber(ARGV[4]), clock()
local made = math.max(slot, math.floor((now - ARGV[2]) / width))
for at = 2, #KEYS, 5 do
  local of = bucket(at, ARGV[5 + (at - 2) / 5 * 2], ARGV[6 + (at - 2) / 5 * 2])
  local sums, counted = advance(of, now, window, width), math.min(tonumber(reserved), of.tokens or math.huge)
  if slot >= sums.oldest then
    sums.tokens = sums.tokens + used - counted
    if made > slot then
      redis.call('HINCRBY', of.used, string.format('%dr', slot), -1)
      redis.call('HINCRBY', of.used, string.format('%dt', slot), -counted)
      add_usage(of, made, 1, used, sums)
    else
      add_usage(of, slot, 0, used - counted, sums)
    end
    redis.call('PEXPIRE', of.used, 2 * window)
  end
end
redis.call('SET', KEYS[1], 'settled', 'PX', math.max(1, math.ceil((made + 1) * width + window - now)))
return 1
