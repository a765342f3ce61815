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
  used.limit, used.fields, used.added = tonumber(ARGV[3 + i]) or math.huge, {}, {}
  usages[i] = used
end

-- Add a number to the count of a slot.
local function add(used, slot, kind, number)
  local name = string.format('%d%s', slot, kind)
  if not used.added[name] then used.fields[#used.fields + 1] = name end
  used.added[name] = (used.added[name] or 0) + number
end

-- Replace the tokens that a request has reserved, unless its slot has left the usage, or the usage was lost.
local function replace(used, slot, reserved, sent, tokens)
  if slot < used.oldest or used.requests == 0 then return end
  local counted = math.min(reserved, used.limit)
  used.tokens = used.tokens + tokens - counted
  if sent == slot then return add(used, slot, 't', tokens - counted) end
  add(used, slot, 'r', -1)
  add(used, slot, 't', -counted)
  add(used, sent, 'r', 1)
  add(used, sent, 't', tokens)
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
  if #used.fields > 0 then
    local counts, values = redis.call('HMGET', used.key, unpack(used.fields)), { 'tokens', used.tokens }
    for i, name in ipairs(used.fields) do
      values[2 * i + 1], values[2 * i + 2] = name, (tonumber(counts[i]) or 0) + used.added[name]
    end
    redis.call('HSET', used.key, unpack(values))
    if used.later then redis.call('PEXPIRE', used.key, 2 * window) end
  end
end
return recorded
