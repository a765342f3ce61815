-- commit: take over a step that stands in the workspace; the task is idle after it, and the fence moves.
-- KEYS[1] state (hash)  KEYS[2] tail (list)  KEYS[3] events (stream, channel)  KEYS[4] lease (string)
-- KEYS[5] calls (hash)  KEYS[6] content (stream)
-- ARGV[1] expected epoch  ARGV[2] seq of the step  ARGV[3] step (JSON)  ARGV[4] state of the history after it (JSON)
-- ARGV[5] how many of the newest steps to keep  ARGV[6] how many of the newest chunks to keep  ARGV[7..] events' bodies
-- Returns 1, also if the step was taken over before; 0 if the fence had moved or the position is not the next one.
local now = redis.call('HMGET', KEYS[1], 'epoch', 'seq', 'chunks')
if not now[1] then return 0 end
if tonumber(now[2]) > tonumber(ARGV[2]) then return 1 end
if now[1] ~= ARGV[1] or now[2] ~= ARGV[2] then return 0 end
redis.call('HSET', KEYS[1], 'epoch', tonumber(ARGV[1]) + 1, 'seq', tonumber(ARGV[2]) + 1, 'fold', ARGV[4],
  'phase', 'idle', 'status', 'running', 'reason', '', 'attempt', 1, 'owner', '', 'emitted', 0, 'rings', 0,
  'handed', redis.call('TIME')[1])
redis.call('DEL', KEYS[4], KEYS[5])
redis.call('RPUSH', KEYS[2], ARGV[3])
redis.call('LTRIM', KEYS[2], -tonumber(ARGV[5]), -1)
local gone = tonumber(now[3]) - tonumber(ARGV[6])
if gone > 0 then redis.call('XTRIM', KEYS[6], 'MINID', '~', gone .. '-0') end
for i = 7, #ARGV do say(KEYS[1], KEYS[3], 'events', 'chunks', ARGV[i]) end
return 1
