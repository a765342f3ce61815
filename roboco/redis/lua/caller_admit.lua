-- caller_admit: count a request of a caller, unless a limit is reached.
-- KEYS[1..4]  string  time in ms at which all is paid for: the caller's requests, its bytes; the tenant's, its bytes
-- ARGV[1]     bytes of the request
-- ARGV[2]     '1' to refuse a request beyond a limit, '0' to count it in any case, and then its bytes only
-- ARGV[3..6]  limit a minute of each key, or '' without one
-- Return {0, requests that are left at once or -1, ms until all are} or {index of the limit, ms until it allows one}.
-- Theory: the generic cell rate algorithm. Each request moves the time of payment by a share of a minute. A caller
-- may be a minute ahead, so it may send a minute's requests at once. One number for each limit is enough.
-- Bytes are paid for afterwards: a request waits until those before it are paid for to within a minute. A single
-- large upload counts for at most MAX_DEBT.
-- Cost: O(1).
local MINUTE, MAX_DEBT = 60000, 600000
local time = redis.call('TIME')
local now = time[1] * 1000 + math.floor(time[2] / 1000)
local refuse = ARGV[2] == '1'
local paid = {}
for i = 1, 4 do
  local limit = tonumber(ARGV[2 + i])
  if limit then
    local before = math.max(now, tonumber(redis.call('GET', KEYS[i]) or '0'))
    if i % 2 == 1 then
      paid[i] = before + (refuse and MINUTE / limit or 0)
      if refuse and paid[i] > now + MINUTE + 0.5 then return { i, math.ceil(paid[i] - now - MINUTE) } end
    else
      if refuse and before >= now + MINUTE then return { i, math.max(1, math.ceil(before - now - MINUTE)) } end
      paid[i] = math.min(before + tonumber(ARGV[1]) * MINUTE / limit, math.max(before, now + MAX_DEBT))
    end
  end
end
for i, at in pairs(paid) do
  if at > now then redis.call('SET', KEYS[i], string.format('%.3f', at), 'PX', math.ceil(at - now)) end
end
if not paid[1] then return { 0, -1, 0 } end
local limit = tonumber(ARGV[3])
return { 0, math.max(0, math.floor((now + MINUTE + 0.5 - paid[1]) * limit / MINUTE)), math.ceil(paid[1] - now) }
