-- bucket: the state of one rate limit. A library of the rate_ scripts.
-- A bucket holds the requests of the last window, in slots of a second, and the waiting tickets. Its five keys are
-- KEYS[at] to KEYS[at + 4]:
--   used       hash: requests `Nr` and tokens `Nt` of slot N; their sums `requests` and `tokens`; `oldest`, the first
--              slot that is in the sums
--   queue      sorted set: waiting tickets by virtual start time
--   tickets    hash: TICKET -> "TOKENS START FINISH TENANT"
--   flows      hash: `V` the virtual time; `tokens` of all waiting tickets; for each tenant `n:` the number of its
--              waiting tickets, `f:` the finish of its newest ticket, `a:` the finish of its newest admitted ticket
--   deadlines  sorted set: waiting tickets by the time, in ms, at which they lose their place
-- Theory: start-time fair queueing (Goyal, Vin, Cheng 1996). A ticket starts where the previous ticket of its tenant
-- finishes, or at the virtual time if that is later. Its finish is its start plus its share of the limit. Tickets are
-- admitted in the order of their starts, so a tenant with many tickets delays its own tickets, not other tenants'.
-- Counting: a request counts until a window after the end of its slot, which is up to a slot longer than needed. So no
-- window of time holds more than the limit: there is no overshoot, and up to a 60th of the limit is not used. A slot
-- enters the sums with its requests and leaves them once, so the cost of a request does not grow with the rate.
local MAX_EXPIRED = 100

-- Return the time of this server in ms.
local function clock()
  local time = redis.call('TIME')
  return time[1] * 1000 + math.floor(time[2] / 1000)
end

-- Return the keys and limits of the bucket whose keys start at this index.
local function bucket(at, requests, tokens)
  return {
    used = KEYS[at], queue = KEYS[at + 1], tickets = KEYS[at + 2], flows = KEYS[at + 3], deadlines = KEYS[at + 4],
    requests = tonumber(requests), tokens = tonumber(tokens),
  }
end

-- Return the slot of this time in ms, and the first slot that still counts then.
local function slots_at(now, window, width) return math.floor(now / width), math.floor((now - window) / width) end

-- Subtract the slots that left the window from the sums. Return the sums `requests` and `tokens`, and `oldest`. Every
-- writer of slots calls this first, so no slot is later than a window after the oldest one. If all slots have left, or
-- the clock was set back by more than a window, as by a failover, begin with an empty window.
local function advance(of, now, window, width)
  local newest, first = slots_at(now, window, width)
  local found = redis.call('HMGET', of.used, 'oldest', 'requests', 'tokens')
  local sums = { oldest = tonumber(found[1]) or first, requests = tonumber(found[2]) or 0, tokens = tonumber(found[3]) or 0 }
  if sums.oldest >= first and sums.oldest <= newest then return sums end
  if first - sums.oldest > newest - first + 1 or sums.oldest > newest then
    redis.call('DEL', of.used)
    return { oldest = first, requests = 0, tokens = 0 }
  end
  local leaving = {}
  for slot = sums.oldest, first - 1 do
    leaving[#leaving + 1] = string.format('%dr', slot)
    leaving[#leaving + 1] = string.format('%dt', slot)
  end
  for i, used in ipairs(redis.call('HMGET', of.used, unpack(leaving))) do
    local kind = i % 2 == 1 and 'requests' or 'tokens'
    sums[kind] = sums[kind] - (tonumber(used) or 0)
  end
  sums.oldest = first
  redis.call('HDEL', of.used, unpack(leaving))
  redis.call('HSET', of.used, 'requests', sums.requests, 'tokens', sums.tokens, 'oldest', first)
  return sums
end

-- Add requests and tokens to a slot, and store the sums, which already contain them.
local function add_usage(of, slot, requests, tokens, sums)
  if requests ~= 0 then redis.call('HINCRBY', of.used, string.format('%dr', slot), requests) end
  if tokens ~= 0 then redis.call('HINCRBY', of.used, string.format('%dt', slot), tokens) end
  redis.call('HSET', of.used, 'requests', sums.requests, 'tokens', sums.tokens, 'oldest', sums.oldest)
end

-- Return the fields of a waiting ticket, or nil.
local function ticket_of(of, ticket)
  local found = redis.call('HGET', of.tickets, ticket)
  if not found then return nil end
  local tokens, start, finish, tenant = found:match('^(%S+) (%S+) (%S+) (.*)$')
  return { tokens = tonumber(tokens), start = tonumber(start), finish = finish, tenant = tenant }
end

-- Remove a ticket from the queue. Once no ticket of its tenant waits, the tenant is charged for admitted tickets only.
local function remove_ticket(of, ticket, admitted)
  local its = ticket_of(of, ticket)
  redis.call('ZREM', of.queue, ticket)
  redis.call('ZREM', of.deadlines, ticket)
  if not its then return end
  redis.call('HDEL', of.tickets, ticket)
  if redis.call('EXISTS', of.queue) == 0 then return redis.call('DEL', of.flows) end
  redis.call('HINCRBY', of.flows, 'tokens', -its.tokens)
  if admitted then
    redis.call('HSET', of.flows, 'a:' .. its.tenant, its.finish)
    local time = tonumber(redis.call('HGET', of.flows, 'V') or '0')
    if its.start > time then redis.call('HSET', of.flows, 'V', string.format('%.17g', its.start)) end
  end
  if redis.call('HINCRBY', of.flows, 'n:' .. its.tenant, -1) > 0 then return end
  local charged = redis.call('HGET', of.flows, 'a:' .. its.tenant)
  redis.call('HDEL', of.flows, 'n:' .. its.tenant, 'f:' .. its.tenant, 'a:' .. its.tenant)
  if charged then redis.call('HSET', of.flows, 'f:' .. its.tenant, charged, 'a:' .. its.tenant, charged) end
end
