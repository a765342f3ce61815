-- begin_again: begin a new generation of a task's logs, because the old one may have lost its end.
-- KEYS[1] state (hash)  KEYS[2] events (stream, channel)  KEYS[3] content (stream)
-- ARGV[1] the new generation  ARGV[2] the event's body
-- Returns 1, or 0 if the task is not known.
local now = redis.call('HGET', KEYS[1], 'generation')
if not now then return 0 end
if now == ARGV[1] then return 1 end
redis.call('HSET', KEYS[1], 'generation', ARGV[1], 'chunks', 0, 'events', 0)
redis.call('DEL', KEYS[2], KEYS[3])
say(KEYS[1], KEYS[2], 'events', 'chunks', ARGV[2])
-- A task that was left goes with all its keys: a new log has to have the time to live of the old one.
local left = redis.call('PTTL', KEYS[1])
if left > 0 then redis.call('PEXPIRE', KEYS[2], left) end
return 1
