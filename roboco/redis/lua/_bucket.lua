-- bucket: one rate limit and its waiting tickets. A library of the rate_ scripts.
-- Its five keys are KEYS[at] to KEYS[at + 4]:
--   used       hash: the requests of the last window; see _usage.lua
--   queue      sorted set: waiting tickets by virtual start time
--   tickets    hash: TICKET -> "TOKENS START FINISH TENANT"
--   flows      hash: `V` the virtual time; `tokens` of all waiting tickets; for each tenant `n:` the number of its
--              waiting tickets, `f:` the finish of its newest ticket, `a:` the finish of its newest admitted ticket
--   deadlines  sorted set: waiting tickets by the time, in ms, at which they lose their place
-- Theory: start-time fair queueing (Goyal, Vin, Cheng 1996). A ticket starts where the previous ticket of its tenant
-- finishes, or at the virtual time if that is later. Its finish is its start plus its share of the limit. Tickets are
-- admitted in the order of their starts, so a tenant with many tickets delays its own tickets, not other tenants'.
local MAX_EXPIRED = 100

-- Return the keys and limits of the bucket whose keys start at this index.
local function bucket(at, requests, tokens)
  return {
    used = KEYS[at], queue = KEYS[at + 1], tickets = KEYS[at + 2], flows = KEYS[at + 3], deadlines = KEYS[at + 4],
    requests = tonumber(requests), tokens = tonumber(tokens),
  }
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
