-- rate_record: replace the reserved tokens of a request by its used tokens, in the slot in which it was sent.
-- KEYS[1] admission of the ticket (string: "SLOT TOKENS", or "settled")
-- KEYS[2..] usage of its buckets (hash); see _usage.lua
-- ARGV[1] used tokens  ARGV[2] ms since the request was sent  ARGV[3] window in ms
-- ARGV[4] width of a slot in ms
-- ARGV[5..] for each bucket: tokens for each window, or ''
-- Return 1, or 0 if the usage was recorded before or the admission has expired.
-- Cost: O(1).
local admission = redis.call('SET', KEYS[1], 'settled', 'XX', 'KEEPTTL', 'GET')
local number, reserved = (admission or ''):match('^(%d+) (%d+)$')
if not number then return 0 end
number, reserved = tonumber(number), tonumber(reserved)
local tokens, window, width, now = tonumber(ARGV[1]), tonumber(ARGV[3]), tonumber(ARGV[4]), clock()
local sent = math.max(number, math.floor((now - ARGV[2]) / width))
for at = 2, #KEYS do
  local used = usage(KEYS[at], sent, math.floor(now / width), math.floor((now - window) / width))
  local counted = math.min(reserved, tonumber(ARGV[3 + at]) or math.huge)
  if number >= used.oldest and sent == number then
    add_usage(used, 0, tokens - counted, 2 * window)
  elseif number >= used.oldest then
    redis.call('HINCRBY', used.key, string.format('%dr', number), -1)
    redis.call('HINCRBY', used.key, string.format('%dt', number), -counted)
    used.requests, used.tokens = used.requests - 1, used.tokens - counted
    add_usage(used, 1, tokens, 2 * window)
  end
end
return 1
