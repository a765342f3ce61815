-- choose: write down what is to happen next, and move the fence.
-- KEYS[1] state (hash)  KEYS[2] events (stream, channel)  KEYS[3] lease (string)  KEYS[4] calls (hash)
-- KEYS[5] inbox (set)
-- ARGV[1] expected epoch  ARGV[2] token of this call, so that sending it twice is sending it once
-- ARGV[3] how many items the inbox may hold at most, or ''
-- ARGV[4] phase  ARGV[5] status  ARGV[6] reason  ARGV[7] agent  ARGV[8] routing (JSON)  ARGV[9..] events' bodies
-- Returns the new epoch, or 0 if the fence had moved or the inbox holds more.
local now = redis.call('HMGET', KEYS[1], 'epoch', 'op')
if not now[1] then return 0 end
if now[2] == ARGV[2] then return tonumber(now[1]) end
if now[1] ~= ARGV[1] then return 0 end
if ARGV[3] ~= '' and redis.call('SCARD', KEYS[5]) > tonumber(ARGV[3]) then return 0 end
redis.call('HSET', KEYS[1], 'epoch', tonumber(ARGV[1]) + 1, 'op', ARGV[2], 'phase', ARGV[4], 'status', ARGV[5],
  'reason', ARGV[6], 'agent', ARGV[7], 'routing', ARGV[8], 'attempt', 1, 'owner', '', 'emitted', 0, 'rings', 0,
  'handed', redis.call('TIME')[1])
redis.call('DEL', KEYS[3])
-- Whoever waits for somebody's word on a call keeps the outcomes of the others, and so does who has that call run then.
if ARGV[4] ~= 'wait' and ARGV[4] ~= 'tools' then redis.call('DEL', KEYS[4]) end
for i = 9, #ARGV do say(KEYS[1], KEYS[2], 'events', 'chunks', ARGV[i]) end
return tonumber(ARGV[1]) + 1
