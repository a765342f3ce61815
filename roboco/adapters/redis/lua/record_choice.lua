-- record_choice: write down what is to happen next, and move the fence.
-- KEYS[1] state (hash)  KEYS[2] events (stream, channel)  KEYS[3] lease (string)  KEYS[4] calls (hash)
-- KEYS[5] inbox (set)
-- ARGV[1] expected epoch  ARGV[2] run ids of which this server must have one, or '' for any
-- ARGV[3] how many ids of seen inbox items follow, or '' if any item may wait; these ids; then the choice, as
-- `record_choice` takes it
-- Returns the new epoch, or 0 if the fence had moved, the inbox holds an item that was not seen, or the run is another.
-- Cost: O(items in the inbox), which are limited to about 1,000.
local choice = 4 + (tonumber(ARGV[3]) or 0)
local now = redis.call('HMGET', KEYS[1], 'epoch', 'op_token')
if not now[1] then return 0 end
if now[2] == ARGV[choice] then return tonumber(now[1]) end
if now[1] ~= ARGV[1] then return 0 end
if ARGV[2] ~= '' then
  local run = string.match(redis.call('INFO', 'server'), 'run_id:(%x+)')
  if not string.find(ARGV[2], run, 1, true) then return 0 end
end
if ARGV[3] ~= '' then
  local seen = {}
  for i = 4, choice - 1 do seen[ARGV[i]] = true end
  for _, id in ipairs(redis.call('SMEMBERS', KEYS[5])) do
    if not seen[id] then return 0 end
  end
end
redis.call('DEL', KEYS[3])
-- Whoever waits for somebody's word on a call keeps the outcomes of the others, and so does who has that call run then.
local phase = ARGV[choice + 1]
if phase ~= 'wait' and phase ~= 'tools' then redis.call('DEL', KEYS[4]) end
return record_choice(KEYS[1], KEYS[2], tonumber(ARGV[1]) + 1, choice)
