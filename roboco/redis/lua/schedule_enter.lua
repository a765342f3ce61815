-- schedule_enter: set the due times of entries of one shard, by the clock of this server.
-- KEYS[1] due times (sorted set)
-- ARGV[1] delay in seconds  ARGV[2] '' always, 'NX' for entries that have no due time  ARGV[3...] names
-- Return the number of names that had no due time.
-- Cost: O(names * log n) in the entries of the set; the caller sends at most a few hundred names.
local time = redis.call('TIME')
local at = string.format('%.6f', time[1] + time[2] / 1e6 + tonumber(ARGV[1]))
local added = 0
for i = 3, #ARGV do
  if ARGV[2] == '' then
    added = added + redis.call('ZADD', KEYS[1], at, ARGV[i])
  else
    added = added + redis.call('ZADD', KEYS[1], ARGV[2], at, ARGV[i])
  end
end
return added
