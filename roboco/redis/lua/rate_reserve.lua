-- rate_reserve: admit a request to a model, or return when to ask again. No window of time holds more requests or
-- tokens than each bucket allows.
-- KEYS[1] end of a pause that the model server demands, in ms (string)
-- KEYS[2] admission of this ticket (string: "SLOT TOKENS"); exists from its admission until the record of its tokens
-- KEYS[3] tasks that wait for a reply of this model (sorted set)
-- KEYS[4..] keys of one or two buckets, the team's before the operator's; see _bucket.lua
-- ARGV[1] ticket  ARGV[2] tokens  ARGV[3] tenant  ARGV[4] window in ms  ARGV[5] ms after which a ticket asks again
-- ARGV[6] ms after that at which a ticket that has not asked again loses its place
-- ARGV[7] width of a slot in ms
-- ARGV[8..] for each bucket: requests for each window, or ''; tokens for each window, or ''
-- Return the ms after which to ask again; 0 if the request is admitted; -1 if it is admitted and tasks wait for a
-- reply.
-- Cost: O(1) if no ticket waits, whatever the rate; O(log(waiting tickets)) and 60 slots if the ticket has to wait. One
-- call removes at most 100 tickets that lost their place.

local any = redis.call('EXISTS', KEYS[1], KEYS[2], KEYS[3], KEYS[5] or KEYS[3], KEYS[10] or KEYS[3]) > 0
local time = redis.call('TIME')
local window, width, now = tonumber(ARGV[4]), tonumber(ARGV[7]), time[1] * 1000 + math.floor(time[2] / 1000)
local newest, first = math.floor(now / width), math.floor((now - window) / width)

-- As a rule there is no pause, no admission, no waiting task and no queue, each usage has begun its slot and has lost the
-- slots before the window, and all have room. This path does what usage() and admit() do then, but defines no function:
-- each costs one to three microseconds. Other requests begin anew below it.
local in_requests, in_tokens, usual, counts = string.format('%dr', newest), string.format('%dt', newest), not any, {}
for at = 4, usual and #KEYS or 0, 5 do
  local of = redis.call('HMGET', KEYS[at], 'oldest', 'requests', 'tokens', in_requests, in_tokens)
  local oldest, limit = tonumber(of[1]), 8 + (at - 4) / 5 * 2
  local requests, tokens = tonumber(ARGV[limit]) or math.huge, tonumber(ARGV[limit + 1]) or math.huge
  of.size = math.min(tonumber(ARGV[2]), tokens)
  usual = oldest and of[2] and of[3] and of[4] and of[5] and oldest >= first and oldest <= newest
    and tonumber(of[2]) < requests and of[3] + of.size <= tokens
  if not usual then break end
  counts[at] = of
end
if usual then
  for at = 4, #KEYS, 5 do
    local of = counts[at]
    redis.call('HSET', KEYS[at], 'requests', of[2] + 1, 'tokens', of[3] + of.size, in_requests, of[4] + 1, in_tokens,
      of[5] + of.size)
  end
  if #KEYS > 3 then
    redis.call('SET', KEYS[2], string.format('%d %s', newest, ARGV[2]), 'PX', (newest + 1) * width + window - now)
  end
  return 0
end

-- Shared functions are defined here.
local admitted = any and -redis.call('EXISTS', KEYS[3]) or 0
if any and redis.call('EXISTS', KEYS[2]) == 1 then return admitted end

-- The usage of each bucket, with the `size` of the request: its tokens, but at most the limit, so that a large request
-- waits for an empty window.
local usages, room = {}, true
for at = 4, #KEYS, 5 do
  local limit = 8 + (at - 4) / 5 * 2
  local used, requests, tokens = usage(KEYS[at], newest, newest, first), tonumber(ARGV[limit]), tonumber(ARGV[limit + 1])
  used.size = math.min(tonumber(ARGV[2]), tokens or math.huge)
  room = room and used.requests < (requests or math.huge) and used.tokens + used.size <= (tokens or math.huge)
  usages[#usages + 1] = used
end

-- Count the request in each bucket, and store its admission.
local function admit()
  for _, used in ipairs(usages) do add_usage(used, 1, used.size, 2 * window + ARGV[6]) end
  if #usages == 0 then return end
  redis.call('SET', KEYS[2], string.format('%d %s', newest, ARGV[2]), 'PX', (newest + 1) * width + window - now)
end
if room and not any then
  admit()
  return 0
end

local ticket, tenant, retry_delay = ARGV[1], ARGV[3], tonumber(ARGV[5])
local pause = math.max(0, tonumber(redis.call('GET', KEYS[1]) or '0') - now)

-- Give the ticket a place in the queue of a bucket, unless it has one.
local function join(of)
  if redis.call('HEXISTS', of.tickets, ticket) == 1 then return end
  local start = math.max(tonumber(redis.call('HGET', of.flows, 'V') or '0'),
    tonumber(redis.call('HGET', of.flows, 'f:' .. tenant) or '0'))
  local cost = math.max(of.requests and 1 / of.requests or 0, of.tokens and of.size / of.tokens or 0, 1e-9)
  local finish = string.format('%.17g', start + cost)
  redis.call('ZADD', of.queue, string.format('%.17g', start), ticket)
  redis.call('HSET', of.tickets, ticket, string.format('%d %.17g %s %s', of.size, start, finish, tenant))
  redis.call('HSET', of.flows, 'f:' .. tenant, finish)
  redis.call('HINCRBY', of.flows, 'n:' .. tenant, 1)
  redis.call('HINCRBY', of.flows, 'tokens', of.size)
end

-- Return the requests and tokens of the tickets before this one. The first ticket counts with its own tokens, the
-- others with the average of all waiting tickets.
local function demand_before(of)
  local rank = redis.call('ZRANK', of.queue, ticket) or 0
  if rank == 0 or not of.tokens then return rank, 0 end
  local head = ticket_of(of, redis.call('ZRANGE', of.queue, 0, 0)[1])
  local first = head and head.tokens or 0
  local rest = math.max(0, tonumber(redis.call('HGET', of.flows, 'tokens') or '0') - first - of.size)
  return rank, first + rest * (rank - 1) / math.max(1, redis.call('ZCARD', of.queue) - 2)
end

-- Return the ms until the window has lost this excess of its usage of a kind, 'r' or 't'; beyond the usage, as fast as
-- the limit allows.
local function until_free(of, kind, excess, limit)
  if excess <= 0 then return 0 end
  local fields, freed, oldest = {}, 0, of.usage.oldest
  for number = oldest, newest do fields[#fields + 1] = string.format('%d%s', number, kind) end
  for i, count in ipairs(redis.call('HMGET', of.used, unpack(fields))) do
    freed = freed + (tonumber(count) or 0)
    if freed >= excess then return math.max(1, math.ceil((oldest + i) * width + window - now)) end
  end
  return math.ceil(window + (excess - freed) / limit * window)
end

-- Return the ms until a bucket has room for the ticket, or 0.
local function wait_for(of)
  local requests, tokens = 0, 0
  if redis.call('EXISTS', of.queue) == 1 then
    for _, expired in ipairs(redis.call('ZRANGEBYSCORE', of.deadlines, '-inf', now, 'LIMIT', 0, MAX_EXPIRED)) do
      if expired ~= ticket then remove_ticket(of, expired, false) end
    end
  end
  of.queued = redis.call('EXISTS', of.queue) == 1
  if of.queued then
    join(of)
    requests, tokens = demand_before(of)
  end
  local excess_requests = of.requests and requests + 1 + of.usage.requests - of.requests or 0
  local excess_tokens = of.tokens and tokens + of.size + of.usage.tokens - of.tokens or 0
  return math.max(until_free(of, 'r', excess_requests, of.requests), until_free(of, 't', excess_tokens, of.tokens), pause)
end

local wait, buckets = pause, {}
for i, used in ipairs(usages) do
  local of = bucket(5 * i - 1, ARGV[6 + 2 * i], ARGV[7 + 2 * i])
  of.usage, of.size = used, used.size
  buckets[i] = of
  wait = wait_for(of)
  if wait > 0 then break end
end
if wait > retry_delay then wait = math.max(retry_delay, math.floor(wait / 4)) end
wait = math.max(wait, pause)
for _, of in ipairs(buckets) do
  if wait > 0 then
    local ttl = math.ceil(2 * window + wait + ARGV[6])
    join(of)
    redis.call('ZADD', of.deadlines, now + wait + ARGV[6], ticket)
    for _, key in ipairs({ of.queue, of.tickets, of.flows, of.deadlines }) do
      if redis.call('PTTL', key) < ttl then redis.call('PEXPIRE', key, ttl) end
    end
  elseif of.queued then
    remove_ticket(of, ticket, true)
  end
end
if wait > 0 then return wait end
admit()
return admitted
