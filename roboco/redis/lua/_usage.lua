-- usage: the requests and tokens that a rate limit has admitted in the last window. A library of the rate_ scripts.
-- They are counted in slots of a second, in the fields of a hash: requests `Nr` and tokens `Nt` of slot N; their sums
-- `requests` and `tokens`; `oldest`, the first slot that is in the sums.
-- Counting: a request counts until a window after the end of its slot, which is up to a slot longer than needed. So no
-- window of time holds more than the limit: there is no overshoot, and up to a 60th of the limit is not used. A slot
-- enters the sums with its requests and leaves them once, so the cost of a request does not grow with the rate.
-- Speed: an admission calls Redis five times, and defines none of these functions as a rule. Each command, each table and
-- each function that a script defines before it returns costs one to three microseconds.
-- Redis stores a small hash as a list and walks it to find a field. A mark of more than hash-max-listpack-value bytes (64
-- or 1024 by default) makes it a table. The usage of a busy limit gets one: it has up to 129 fields.
local BUSY, MARK_BYTES = 100, 1025

-- Return the time of this server in ms.
local function clock()
  local time = redis.call('TIME')
  return time[1] * 1000 + math.floor(time[2] / 1000)
end

-- Subtract the slots before `first` from the sums of the usage. If all slots have left, or the clock was set back by more
-- than a window, as by a failover, begin with an empty window.
local function advance(used, newest, first)
  if first - used.oldest > newest - first + 1 or used.oldest > newest then
    redis.call('DEL', used.key)
    used.oldest, used.requests, used.tokens, used.slot_requests, used.slot_tokens = first, 0, 0, nil, nil
    return
  end
  local leaving = {}
  for number = used.oldest, first - 1 do
    leaving[#leaving + 1] = string.format('%dr', number)
    leaving[#leaving + 1] = string.format('%dt', number)
  end
  for i, count in ipairs(redis.call('HMGET', used.key, unpack(leaving))) do
    local kind = i % 2 == 1 and 'requests' or 'tokens'
    used[kind] = used[kind] - (tonumber(count) or 0)
  end
  used.oldest = first
  redis.call('HDEL', used.key, unpack(leaving))
  redis.call('HSET', used.key, 'requests', used.requests, 'tokens', used.tokens, 'oldest', first)
end

-- Return what has been used from the slot `first` to the slot `newest`: the sums `requests` and `tokens`, `oldest`, and
-- the counts of `slot`, which are nil in a new slot. Every writer of slots calls this first, so no slot is later than a
-- window after the oldest one.
local function usage(key, slot, newest, first)
  local in_requests, in_tokens = string.format('%dr', slot), string.format('%dt', slot)
  local found = redis.call('HMGET', key, 'oldest', 'requests', 'tokens', in_requests, in_tokens)
  local used = {
    key = key, oldest = tonumber(found[1]) or first, requests = tonumber(found[2]) or 0, tokens = tonumber(found[3]) or 0,
    in_requests = in_requests, slot_requests = tonumber(found[4]), in_tokens = in_tokens, slot_tokens = tonumber(found[5]),
  }
  if used.oldest < first or used.oldest > newest then advance(used, newest, first) end
  return used
end

-- Begin the slot of the usage: extend the life of the usage by `ttl` ms, and mark a busy one.
local function begin_slot(used, ttl)
  redis.call('HSET', used.key, 'oldest', used.oldest)
  redis.call('PEXPIRE', used.key, ttl)
  if used.requests < BUSY or redis.call('HEXISTS', used.key, 'mark') == 1 then return end
  redis.call('HSET', used.key, 'mark', string.rep('-', MARK_BYTES))
end

-- Add requests and tokens to the slot of the usage and to the sums.
local function add_usage(used, requests, tokens, ttl)
  redis.call('HSET', used.key, 'requests', used.requests + requests, 'tokens', used.tokens + tokens,
    used.in_requests, (used.slot_requests or 0) + requests, used.in_tokens, (used.slot_tokens or 0) + tokens)
  if not used.slot_requests then begin_slot(used, ttl) end
end
