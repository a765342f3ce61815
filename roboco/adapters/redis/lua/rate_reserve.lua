-- rate_reserve: when a request to a model may be made, so that no window of time holds more than each bucket allows.
-- KEYS[1] until when nobody may ask, in ms (string)  KEYS[2] there once this ticket's request may be made (string)
-- KEYS[3] tasks that await an answer of this model (sorted set)
-- KEYS[4..] the keys of one or two buckets, a team's before the operator's; see _bucket.lua
-- ARGV[1] ticket  ARGV[2] tokens  ARGV[3] tenant  ARGV[4] the window in ms  ARGV[5] ms after which a ticket asks again
-- ARGV[6] ms after which a ticket that should have asked again has lost its place
-- ARGV[7..] of each bucket: requests a window, or ''; tokens a window, or ''
-- Returns after how many ms to ask again; 0 if the request may be made now, or -1 if tasks await an answer besides.
-- Cost: O(log(tickets that wait)) and 60 slots; at most 100 tickets that lost their place are removed by one call.
local ticket, tenant, window, again = ARGV[1], ARGV[3], tonumber(ARGV[4]), tonumber(ARGV[5])
local at_once = -redis.call('EXISTS', KEYS[3])
if redis.call('EXISTS', KEYS[2]) == 1 then return at_once end
local now = clock()
local pause = math.max(0, tonumber(redis.call('GET', KEYS[1]) or '0') - now)
local width = window / SLOTS
local newest = math.floor(now / width)

local function size(of) return of.tokens and math.min(tonumber(ARGV[2]), of.tokens) or tonumber(ARGV[2]) end

local function join(of)
  if redis.call('HEXISTS', of.tickets, ticket) == 1 then return end
  local start = math.max(tonumber(redis.call('HGET', of.flows, 'V') or '0'),
    tonumber(redis.call('HGET', of.flows, 'f:' .. tenant) or '0'))
  local cost = math.max(of.requests and 1 / of.requests or 0, of.tokens and size(of) / of.tokens or 0, 1e-9)
  local finish = string.format('%.17g', start + cost)
  redis.call('ZADD', of.queue, string.format('%.17g', start), ticket)
  redis.call('HSET', of.tickets, ticket, string.format('%d %.17g %s %s', size(of), start, finish, tenant))
  redis.call('HSET', of.flows, 'f:' .. tenant, finish)
  redis.call('HINCRBY', of.flows, 'n:' .. tenant, 1)
  redis.call('HINCRBY', of.flows, 'tokens', size(of))
end

-- The requests and tokens of those before us: the first one's as they are, the others' as the average of all that wait.
local function ahead(of)
  local rank = redis.call('ZRANK', of.queue, ticket) or 0
  if rank == 0 or not of.tokens then return rank, 0 end
  local head = waiting(of, redis.call('ZRANGE', of.queue, 0, 0)[1])
  local first = head and head.tokens or 0
  local rest = math.max(0, tonumber(redis.call('HGET', of.flows, 'tokens') or '0') - first - size(of))
  return rank, first + rest * (rank - 1) / math.max(1, redis.call('ZCARD', of.queue) - 2)
end

local function used_in(of)
  local found, r, t = { r = {}, t = {} }, 0, 0
  local all = redis.call('HGETALL', of.used)
  for i = 1, #all, 2 do
    local slot, kind = tonumber(all[i]:sub(1, -2)), all[i]:sub(-1)
    if (slot + 1) * width + window <= now then
      redis.call('HDEL', of.used, all[i])
    else
      found[kind][slot] = tonumber(all[i + 1])
      if kind == 'r' then r = r + found.r[slot] else t = t + found.t[slot] end
    end
  end
  return found, r, t
end

-- After how many ms so much of what was used has left the window; beyond that, as fast as the limit allows.
local function until_free(slots, excess, limit)
  if excess <= 0 then return 0 end
  local freed = 0
  for ago = SLOTS + 1, 0, -1 do -- counted in whole slots: with a window of 0 `newest` has no end
    local slot = newest - ago
    freed = freed + (slots[slot] or 0)
    if freed >= excess then return math.max(1, math.ceil((slot + 1) * width + window - now)) end
  end
  return math.ceil(window + (excess - freed) / limit * window)
end

local function ask(of)
  for _, gone in ipairs(redis.call('ZRANGEBYSCORE', of.deadlines, '-inf', now, 'LIMIT', 0, MOST_LATE)) do
    if gone ~= ticket then leave(of, gone, false) end
  end
  if redis.call('EXISTS', of.queue) == 1 then join(of) end
  local requests, tokens = ahead(of)
  local slots, r, t = used_in(of)
  return math.max(of.requests and until_free(slots.r, requests + 1 + r - of.requests, of.requests) or 0,
    of.tokens and until_free(slots.t, tokens + size(of) + t - of.tokens, of.tokens) or 0, pause)
end

local wait, buckets = pause, {}
for at = 4, #KEYS, 5 do
  local of = bucket(at, ARGV[7 + (at - 4) / 5 * 2], ARGV[8 + (at - 4) / 5 * 2])
  buckets[#buckets + 1] = of
  wait = ask(of)
  if wait > 0 then break end
end
if wait > again then wait = math.max(again, math.floor(wait / 4)) end
wait = math.max(wait, pause)
for _, of in ipairs(buckets) do
  local kept = math.ceil(2 * window + wait + ARGV[6])
  if wait > 0 then
    join(of)
    redis.call('ZADD', of.deadlines, now + wait + ARGV[6], ticket)
    for _, key in ipairs({ of.queue, of.tickets, of.flows, of.deadlines }) do
      if redis.call('PTTL', key) < kept then redis.call('PEXPIRE', key, kept) end
    end
  else
    leave(of, ticket, true)
    redis.call('HINCRBY', of.used, newest .. 'r', 1)
    redis.call('HINCRBY', of.used, newest .. 't', size(of))
    redis.call('PEXPIRE', of.used, kept)
  end
end
if wait == 0 and #buckets > 0 then
  redis.call('SET', KEYS[2], newest .. ' ' .. ARGV[2], 'PX', math.ceil((newest + 1) * width + window - now))
end
return wait > 0 and wait or at_once
