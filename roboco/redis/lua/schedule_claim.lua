-- schedule_claim: claim the earliest due entries of a shard: postpone them, by the clock of this server.
-- KEYS[1] due times of the shard's tasks (sorted set)  KEYS[2] due times of its jobs (sorted set)
-- ARGV[1] maximum of entries to claim  ARGV[2] seconds after which a claimed entry is due again
-- Return {name, new due time as ZSCORE returns it, seconds for which the entry was due, ...}, earliest first.
-- Cost: O(ARGV[1] * log n) in the entries of the shard.
local time = redis.call('TIME')
local now = time[1] + time[2] / 1e6
local found = {}
for i, key in ipairs(KEYS) do
  local flat = redis.call('ZRANGEBYSCORE', key, '-inf', string.format('%.6f', now), 'WITHSCORES', 'LIMIT', 0, ARGV[1])
  for j = 1, #flat, 2 do
    table.insert(found, {key, flat[j], tonumber(flat[j + 1]), i})
  end
end
table.sort(found, function(a, b)
  if a[3] ~= b[3] then return a[3] < b[3] end
  return a[4] < b[4] or a[4] == b[4] and a[2] < b[2]
end)
local answer = {}
local at = string.format('%.6f', now + tonumber(ARGV[2]))
for i = 1, math.min(#found, tonumber(ARGV[1])) do
  local key, name, due = unpack(found[i])
  redis.call('ZADD', key, at, name)
  table.insert(answer, name)
  table.insert(answer, at)
  table.insert(answer, string.format('%.6f', now - due))
end
return answer
