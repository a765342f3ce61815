-- rate_record: replace the reserved tokens of a finished request by its used tokens, in the slot in which it was sent.
-- KEYS[1] admission of the request (string: "SLOT TOKENS"), which this removes: it is recorded once
-- KEYS[2..] usage of its buckets (hash); see _usage.lua
-- ARGV[1] used tokens  ARGV[2] ms since it was sent  ARGV[3] window in ms  ARGV[4] width of a slot in ms
-- ARGV[5..] for each usage: tokens for each window, or ''
-- Return 1, or 0 if the request was recorded before, or its admission has expired.
-- Cost: O(buckets): one or two.
local slot, reserved = (redis.call('GET', KEYS[1]) or ''):match('^(%d+) (%d+)$')
redis.call('DEL', KEYS[1])
if not slot then return 0 end
slot = tonumber(slot)
local tokens, window, width, now = tonumber(ARGV[1]), tonumber(ARGV[3]), tonumber(ARGV[4]), clock()
local newest, first = math.floor(now / width), math.floor((now - window) / width)
local sent = math.max(slot, math.floor((now - ARGV[2]) / width))

local function add(used, at, kind, count)
  redis.call('HINCRBY', used.key, string.format('%d%s', at, kind), count)
end

for i = 2, #KEYS do
  local used = usage(KEYS[i], newest, newest, first)
  if slot >= used.oldest and used.requests > 0 then -- else its slot has left the usage, or the usage was lost
    local counted = math.min(tonumber(reserved), tonumber(ARGV[3 + i]) or math.huge)
    redis.call('HINCRBY', used.key, 'tokens', tokens - counted)
    add(used, slot, 't', -counted)
    add(used, sent, 't', tokens)
    if sent ~= slot then
      add(used, slot, 'r', -1)
      add(used, sent, 'r', 1)
      redis.call('PEXPIRE', used.key, 2 * window)
    end
  end
end
return 1
