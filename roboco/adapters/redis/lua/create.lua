-- create: set a task up, idle, with its newest steps. Nothing changes if the task is known.
-- KEYS[1] state (hash)  KEYS[2] tail (list)  KEYS[3] events (stream, channel)  KEYS[4] content (stream)
-- ARGV[1] generation  ARGV[2] epoch to begin with  ARGV[3] seq, the position of the next step
-- ARGV[4] state of the history (JSON)  ARGV[5] first step (JSON)  ARGV[6] status
-- ARGV[7] how many steps follow, then the steps (JSON), then the events' bodies
-- Returns 1, or 0 if the task is known.
if redis.call('EXISTS', KEYS[1]) == 1 then return 0 end
redis.call('DEL', KEYS[2], KEYS[3], KEYS[4])
redis.call('HSET', KEYS[1], 'generation', ARGV[1], 'epoch', ARGV[2], 'seq', ARGV[3], 'fold', ARGV[4],
  'first', ARGV[5], 'status', ARGV[6], 'phase', 'idle', 'attempt', 1, 'owner', '', 'emitted', 0, 'rings', 0,
  'handed', redis.call('TIME')[1], 'chunks', 0, 'events', 0, 'op', '', 'reason', '', 'agent', '', 'routing', '{}')
local steps = tonumber(ARGV[7])
for i = 8, 7 + steps do redis.call('RPUSH', KEYS[2], ARGV[i]) end
for i = 8 + steps, #ARGV do say(KEYS[1], KEYS[3], 'events', 'chunks', ARGV[i]) end
return 1
