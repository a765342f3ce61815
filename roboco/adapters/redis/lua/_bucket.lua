-- A bucket: what was asked in the last window, in slots of a 60th of it, and the tickets that wait. From KEYS[at] on:
-- used (hash): requests `Nr` and tokens `Nt` of slot N           queue (sorted set): tickets by their virtual start
-- tickets (hash): TICKET -> "TOKENS START FINISH TENANT"          late (sorted set): tickets by when they lose their place
-- flows (hash): `V` the virtual time, `tokens` of all that wait; of each tenant `n:` how many wait, `f:` the finish of
-- its newest, `a:` the finish of its newest that was admitted
-- Start-time fair queueing (Goyal, Vin, Cheng 1996): a tenant's tickets start where its previous one finishes, or at the
-- virtual time if that is later. The order of starts is the order of the queue, whatever a tenant adds to it.
local SLOTS, MOST_LATE = 60, 100
local function clock()
  local time = redis.call('TIME')
  return time[1] * 1000 + math.floor(time[2] / 1000)
end

local function bucket(at, requests, tokens)
  return {
    used = KEYS[at], queue = KEYS[at + 1], tickets = KEYS[at + 2], flows = KEYS[at + 3], deadlines = KEYS[at + 4],
    requests = tonumber(requests), tokens = tonumber(tokens),
  }
end

local function waiting(of, ticket)
  local found = redis.call('HGET', of.tickets, ticket)
  if not found then return nil end
  local tokens, start, finish, tenant = found:match('^(%S+) (%S+) (%S+) (.*)$')
  return { tokens = tonumber(tokens), start = tonumber(start), finish = finish, tenant = tenant }
end

-- Take a ticket out of the queue. Once none of its tenant waits, the tenant is charged for admitted tickets alone.
local function leave(of, ticket, admitted)
  local its = waiting(of, ticket)
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
