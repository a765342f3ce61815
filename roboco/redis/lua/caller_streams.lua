-- caller_streams: lease open streams to a process of the gateway.
-- KEYS[1], KEYS[2]  hash  process -> "COUNT EXPIRY": the streams of the caller, and those of its tenant
-- ARGV[1]           name of the process
-- ARGV[2], ARGV[3]  the process's open streams of the caller, and of the tenant
-- ARGV[4], ARGV[5]  limit of each, or '' without one
-- ARGV[6]           ms of the lease
-- ARGV[7]           '1' to refuse streams beyond a limit
-- Return 0, or the index of the limit that is reached; nothing is changed then.
-- Cost: O(processes of the gateway).
local time = redis.call('TIME')
local now = time[1] * 1000 + math.floor(time[2] / 1000)
for i = 1, 2 do
  local limit = tonumber(ARGV[3 + i])
  if limit and ARGV[7] == '1' then
    local total, ended, found = tonumber(ARGV[1 + i]), {}, redis.call('HGETALL', KEYS[i])
    for at = 1, #found, 2 do
      local count, expiry = string.match(found[at + 1], '^(%d+) (%d+)$')
      if tonumber(expiry) <= now then
        ended[#ended + 1] = found[at]
      elseif found[at] ~= ARGV[1] then
        total = total + tonumber(count)
      end
    end
    if #ended > 0 then redis.call('HDEL', KEYS[i], unpack(ended)) end
    if total > limit then return i end
  end
end
for i = 1, 2 do
  if ARGV[3 + i] ~= '' then
    if tonumber(ARGV[1 + i]) == 0 then
      redis.call('HDEL', KEYS[i], ARGV[1])
    else
      redis.call('HSET', KEYS[i], ARGV[1], ARGV[1 + i] .. ' ' .. string.format('%d', now + ARGV[6]))
      redis.call('PEXPIRE', KEYS[i], ARGV[6])
    end
  end
end
return 0
