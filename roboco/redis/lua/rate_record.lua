-- rate_record: replace the reserved tokens of finished requests by their used tokens, in the slots in which they were sent.
-- KEYS[1..n] admission of each request, each once (string: "SLOT TOKENS"), which this removes: it is recorded once
-- KEYS[n + 1..] usage of their buckets (hash), each once; see _usage.lua
-- ARGV[1] n  ARGV[2] window in ms  ARGV[3] width of a slot in ms
-- ARGV[4..] for each usage: tokens for each window, or ''
-- then for each request: used tokens, ms since it was sent, the number of its usage, that of its second usage or 0
-- Return the number of requests that were recorded: not those recorded before, nor those whose admission has expired.
-- Cost: O(n), with a command for each request, two more, and three for each usage.
local n, window, width, now = tonumber(ARGV[1]), tonumber(ARGV[2]), tonumber(ARGV[3]), clock()
local newest, first = math.floor(now / width), math.floor((now - window) / width)
local admissions = {}
for i = 1, n do admissions[i] = redis.call('GET', KEYS[i]) end
redis.call('DEL', unpack(KEYS, 1, n))
local usages, recorded = {}, 0
for i = 1, #KEYS - n do
  local used = usage(KEYS[n + i], newest, newest, first)
  used.limit, used.slots, used.added_requests, used.added_tokens = tonumber(ARGV[3 + i]) or math.huge, {}, {}, {}
  usages[i] = used
end

-- Add requests and tokens to the counts of a slot.
local function add(used, slot, requests, tokens)
  if not used.added_tokens[slot] then
    used.slots[#used.slots + 1] = slot
    used.added_requests[slot], used.added_tokens[slot] = 0, 0
  end
  used.added_requests[slot] = used.added_requests[slot] + requests
  used.added_tokens[slot] = used.added_tokens[slot] + tokens
end

-- Replace the tokens that a request has reserved, unless its slot has left the usage, or the usage was lost.
local function replace(used, slot, reserved, sent, tokens)
  if slot < used.oldest or used.requests == 0 then return end
  local counted = math.min(reserved, used.limit)
  used.tokens = used.tokens + tokens - counted
  if sent == slot then return add(used, slot, 0, tokens - counted) end
  add(used, slot, -1, -counted)
  add(used, sent, 1, tokens)
  used.later = true
end

for i = 1, n do
  local slot, reserved = (admissions[i] or ''):match('^(%d+) (%d+)$')
  slot, reserved = tonumber(slot), tonumber(reserved)
  if slot then
    local at = #usages + 4 * i
    local sent = math.max(slot, math.floor((now - ARGV[at + 1]) / width))
    for j = at + 2, at + 3 do
      local used = usages[tonumber(ARGV[j])]
      if used then replace(used, slot, reserved, sent, tonumber(ARGV[at])) end
    end
    recorded = recorded + 1
  end
end
for _, used in ipairs(usages) do
  local fields, added = {}, {}
  for _, slot in ipairs(used.slots) do
    fields[#fields + 1], added[#added + 1] = string.format('%dt', slot), used.added_tokens[slot]
    if used.added_requests[slot] ~= 0 then
      fields[#fields + 1], added[#added + 1] = string.format('%dr', slot), used.added_requests[slot]
    end
  end
  if #fields > 0 then
    local counts, values = redis.call('HMGET', used.key, unpack(fields)), { 'tokens', used.tokens }
    for i, name in ipairs(fields) do
      values[2 * i + 1], values[2 * i + 2] = name, (tonumber(counts[i]) or 0) + added[i]
    end
    redis.call('HSET', used.key, unpack(values))
    if used.later then redis.call('PEXPIRE', used.key, 2 * window) end
  end
end
return recorded
