-- caller_task_remove: remove tasks from the open tasks of a caller and of its tenant.
-- KEYS     as in caller_task_add
-- ARGV[..] ids of the tasks
-- Return 0.
-- Cost: O(ids * log(open tasks)), of at most 500 ids.
for i = 1, 2 do
  for _, id in ipairs(ARGV) do
    redis.call('ZREM', KEYS[i], id)
    local found = redis.call('HMGET', KEYS[2 + i], id, '')
    if found[1] then
      redis.call('HDEL', KEYS[2 + i], id)
      redis.call('HSET', KEYS[2 + i], '', math.max(0, tonumber(found[2] or '0') - tonumber(found[1])))
    end
  end
end
return 0
