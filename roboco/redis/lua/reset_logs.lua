-- reset_logs: begin a new generation of the logs of a task, because the old generation may have lost its end.
-- The fence moves if the task is idle or waits, so that an epoch that Redis has lost is not used again. It does
-- not move if the task has ended or a worker may hold work.
-- KEYS[1] state (hash)  KEYS[2] events (stream, channel)  KEYS[3] content (stream)
-- ARGV[1] expected epoch  ARGV[2] token of this call: a call that is sent twice takes effect once
-- ARGV[3..] bodies of the events
-- Return 1, also if the logs were reset before or the task does not exist; 0 if the fence moved.
-- Cost: O(log + events).
local now = redis.call('HMGET', KEYS[1], 'generation', 'epoch', 'phase', 'reset_token')
if not now[1] or now[4] == ARGV[2] then return 1 end
if now[2] ~= ARGV[1] then return 0 end
local time = redis.call('TIME')
local ms = time[1] * 1000 + math.floor(time[2] / 1000)
if now[3] == 'idle' or now[3] == 'wait' then
  redis.call('HSET', KEYS[1], 'epoch', math.max(ms, tonumber(now[2]) + 1))
end
local generation = string.format('%012x', math.max(ms, tonumber(now[1], 16) + 1))
redis.call('HSET', KEYS[1], 'generation', generation, 'reset_token', ARGV[2], 'chunks', 0, 'events', 0,
  'event_bytes', 0)
redis.call('HDEL', KEYS[1], 'first_event', 'archived')
redis.call('DEL', KEYS[2], KEYS[3])
for i = 3, #ARGV do publish(KEYS[1], KEYS[2], 'events', 'chunks', ARGV[i]) end
-- All keys of an ended task expire together: the new log gets the time to live that the state has.
local ttl = redis.call('PTTL', KEYS[1])
if ttl > 0 then redis.call('PEXPIRE', KEYS[2], ttl) end
return 1
