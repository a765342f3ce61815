-- reserve: when a request to a model may be made, so that no window of time holds more than is allowed.
-- KEYS[1] tickets by the time in ms at which their request was made, or may be (sorted set)
-- KEYS[2] each ticket's tokens, and `TICKET:made` once its request may be made (hash)
-- KEYS[3] until when nobody may ask, in ms (string)
-- ARGV[1] ticket  ARGV[2] tokens  ARGV[3] requests a window, or ''  ARGV[4] tokens a window, or ''
-- ARGV[5] the window in ms
-- Returns how many ms to wait; 0 if the request may be made now.
local LATE = 5000 -- a ticket whose time came so long ago, and which did not come back, has lost its place
local time = redis.call('TIME')
local now = time[1] * 1000 + math.floor(time[2] / 1000)
local window, requests, most = tonumber(ARGV[5]), tonumber(ARGV[3]), tonumber(ARGV[4])
local tokens = tonumber(ARGV[2])
if redis.call('HEXISTS', KEYS[2], ARGV[1] .. ':made') == 1 then return 0 end
local at = math.max(now, tonumber(redis.call('GET', KEYS[3]) or '0'))
if not requests and not most then return at - now end
if most then tokens = math.min(tokens, most) end
local mine = redis.call('ZSCORE', KEYS[1], ARGV[1])
local entries, used = {}, 0
local all = redis.call('ZRANGE', KEYS[1], 0, -1, 'WITHSCORES')
for i = 1, #all, 2 do
  local ticket, score = all[i], tonumber(all[i + 1])
  local made = redis.call('HEXISTS', KEYS[2], ticket .. ':made') == 1
  if score <= now - window or (not made and score < now - LATE and ticket ~= ARGV[1]) then
    redis.call('ZREM', KEYS[1], ticket)
    redis.call('HDEL', KEYS[2], ticket, ticket .. ':made')
  elseif ticket ~= ARGV[1] and (made or not mine or score < tonumber(mine)) then
    if not made then score = math.max(score, now) end
    local its = tonumber(redis.call('HGET', KEYS[2], ticket) or '0')
    entries[#entries + 1] = { score, its }
    if not made then at = math.max(at, score) end
  end
end
table.sort(entries, function(a, b) return a[1] < b[1] end)
local count, first = 0, 1
for _, one in ipairs(entries) do
  if one[1] > at - window then count, used = count + 1, used + one[2] else first = first + 1 end
end
while first <= #entries and ((most and used + tokens > most) or (requests and count >= requests)) do
  local oldest = entries[first]
  at = math.max(at, oldest[1] + window + 1)
  count, used, first = count - 1, used - oldest[2], first + 1
end
redis.call('ZADD', KEYS[1], at, ARGV[1])
redis.call('HSET', KEYS[2], ARGV[1], tokens)
if at <= now then redis.call('HSET', KEYS[2], ARGV[1] .. ':made', 1) end
local kept = math.max(2 * window, at - now + 2 * window)
redis.call('PEXPIRE', KEYS[1], kept)
redis.call('PEXPIRE', KEYS[2], kept)
return at - now
