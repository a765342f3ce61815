-- index_put: store the entry of a task in the task index, in place of an older one.
-- KEYS[1] entries by task id (hash): "VERSION TIME CREATED STATUS SCOPE", a newline, and the data
-- KEYS[2..] orders (sorted sets of equal scores): STATUS, TIME and task id, for each task in KEYS[1]
-- ARGV[1] task id  ARGV[2] version (a number)  ARGV[3] time of the change in ms, 13 digits  ARGV[4] time of creation in
-- ms  ARGV[5] status, 2 letters; 'e' first if the task has ended  ARGV[6] 1 if an entry of the same status keeps its
-- times  ARGV[7] scope: 'a' if KEYS hold the order of all tasks, else 't'  ARGV[8] data
-- Return 1 if the entry is stored now; 0 if it is stored already, or a newer one is.
-- Cost: O(log n) for each order.
local id, at, created, status, scope = ARGV[1], ARGV[3], ARGV[4], ARGV[5], ARGV[7]
local before, old = redis.call('HGET', KEYS[1], id), nil
if before then
  local version, time, began, state, known = before:match('^(%d+) (%d+) (%d+) (%a%a) (%a)\n')
  if version then
    local ends, ended = status:sub(1, 1) == 'e', state:sub(1, 1) == 'e'
    if ended and not ends then return 0 end
    if ends == ended and tonumber(ARGV[2]) < tonumber(version) then return 0 end
    if known == 'a' and scope == 't' then return 0 end -- a tenant's client cannot change the order of all tasks
    if ARGV[6] == '1' then
      created = began
      if state == status then at = time end
    end
    old = state .. time .. id
  end
end
local entry = table.concat({ ARGV[2], at, created, status, scope }, ' ') .. '\n' .. ARGV[8]
if entry == before then return 0 end
local member = status .. at .. id
for i = 2, #KEYS do
  if old and old ~= member then redis.call('ZREM', KEYS[i], old) end
  redis.call('ZADD', KEYS[i], 0, member)
end
redis.call('HSET', KEYS[1], id, entry)
return 1
