-- choose: write down what is to happen next, and move the fence.
-- KEYS[1] state (hash)  KEYS[2] events (stream, channel)  KEYS[3] lease (string)  KEYS[4] calls (hash)
-- KEYS[5] inbox (set)
-- ARGV[1] expected epoch  ARGV[2] how many items the inbox may hold at most, or ''
-- ARGV[3..] the choice, as `write_down` takes it
-- Returns the new epoch, or 0 if the fence had moved or the inbox holds more.
local now = redis.call('HMGET', KEYS[1], 'epoch', 'op')
if not now[1] then return 0 end
if now[2] == ARGV[3] then return tonumber(now[1]) end
if now[1] ~= ARGV[1] then return 0 end
if ARGV[2] ~= '' and redis.call('SCARD', KEYS[5]) > tonumber(ARGV[2]) then return 0 end
redis.call('DEL', KEYS[3])
-- Whoever waits for somebody's word on a call keeps the outcomes of the others, and so does who has that call run then.
if ARGV[4] ~= 'wait' and ARGV[4] ~= 'tools' then redis.call('DEL', KEYS[4]) end
return write_down(KEYS[1], KEYS[2], tonumber(ARGV[1]) + 1, 3)
