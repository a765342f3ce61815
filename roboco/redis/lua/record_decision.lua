-- record_decision: record the next decision of a task, and move the fence.
-- KEYS[1] state (hash)  KEYS[2] events (stream, channel)  KEYS[3] lease (string)  KEYS[4] calls (hash)
-- KEYS[5] inbox (set)
-- ARGV[1] expected epoch  ARGV[2] run ids of Redis in which the decision is valid, or '' for any
-- ARGV[3] number of ids of considered inbox items that follow, or '' if the inbox may hold any item; these ids; then
-- the decision, for `record_decision`
-- Return the new epoch, or 0 if the fence moved, the inbox holds an item that was not considered, or the run differs.
-- Cost: O(items in the inbox), at most about 1,000.
local decision = 4 + (tonumber(ARGV[3]) or 0)
local now = redis.call('HMGET', KEYS[1], 'epoch', 'op_token')
if not now[1] then return 0 end
if now[2] == ARGV[decision] then return tonumber(now[1]) end
if now[1] ~= ARGV[1] then return 0 end
if ARGV[2] ~= '' then
  local run = string.match(redis.call('INFO', 'server'), 'run_id:(%x+)')
  if not string.find(ARGV[2], run, 1, true) then return 0 end
end
if ARGV[3] ~= '' then
  local seen = {}
  for i = 4, decision - 1 do seen[ARGV[i]] = true end
  for _, id in ipairs(redis.call('SMEMBERS', KEYS[5])) do
    if not seen[id] then return 0 end
  end
end
redis.call('DEL', KEYS[3])
-- A task that waits for a person's answer on a call keeps the outcomes of the other calls. So does the decision that
-- runs the call after that answer.
local phase = ARGV[decision + 1]
if phase ~= 'wait' and phase ~= 'tools' then redis.call('DEL', KEYS[4]) end
return record_decision(KEYS[1], KEYS[2], tonumber(ARGV[1]) + 1, decision)
