-- register_worker: record that a worker of a pool is alive, unless the coordinators use another workspace.
-- KEYS[1] workspace (string: id, space, address)
-- KEYS[2] coordinators by the time of their last registration (sorted set)
-- KEYS[3] workers of the pool by the same time (sorted set)  KEYS[4] records of the workers of the pool (hash)
-- ARGV[1] worker  ARGV[2] its modules and its load (JSON)  ARGV[3] its workspace
-- ARGV[4] 1 if it is a coordinator, which sets the workspace, else 0
-- ARGV[5] seconds for which a worker counts as live  ARGV[6] seconds after which a worker is removed
-- ARGV[7] 1 if open tasks are not in this workspace, so that it must not replace the recorded one, else 0
-- Return '', or the recorded workspace if it is another one and in use.
-- Cost: O(log(workers)). One call removes at most 10 workers.
local time = redis.call('TIME')
local now = time[1] + time[2] / 1e6
local known = redis.call('GET', KEYS[1])
if known and string.match(known, '^%S+') ~= string.match(ARGV[3], '^%S+') then
  local live = redis.call('ZCOUNT', KEYS[2], now - ARGV[5], '+inf')
  local own = redis.call('ZSCORE', KEYS[2], ARGV[1])
  if own and tonumber(own) >= now - ARGV[5] then live = live - 1 end
  if ARGV[7] == '1' or live > 0 then return known end
end
if ARGV[4] == '1' and known ~= ARGV[3] then redis.call('SET', KEYS[1], ARGV[3]) end
redis.call('ZADD', KEYS[3], string.format('%.3f', now), ARGV[1])
redis.call('HSET', KEYS[4], ARGV[1], ARGV[2])
for _, expired in ipairs(redis.call('ZRANGEBYSCORE', KEYS[3], '-inf', now - ARGV[6], 'LIMIT', 0, 10)) do
  redis.call('ZREM', KEYS[3], expired)
  redis.call('HDEL', KEYS[4], expired)
end
return ''
