-- index_remove: remove a task from the task index.
-- KEYS[1] entries by task id (hash)  KEYS[2..] orders that hold the task (sorted sets); see index_put
-- ARGV[1] task id  ARGV[2] the member of the orders that is removed, and the entry with it if that describes the same
-- status and time; or '' to remove the task, whatever its time, unless it has ended; or '*' to remove it in any case
-- Return 1 if the entry is removed, else 0.
-- Cost: O(log n) for each order.
local before = redis.call('HGET', KEYS[1], ARGV[1])
local time, status = (before or ''):match('^%d+ (%d+) %d+ (%a%a)')
local current, member = status and status .. time .. ARGV[1], ARGV[2]
if member == '' or member == '*' then
  if not current or (member == '' and status:sub(1, 1) == 'e') then return 0 end
  member = current
end
for i = 2, #KEYS do redis.call('ZREM', KEYS[i], member) end
if member ~= current then return 0 end
return redis.call('HDEL', KEYS[1], ARGV[1])
