-- emit: number one chunk of a turn, append it to the log, publish it, and renew the lease.
-- A chunk whose number was emitted before is dropped, so that a call that is sent twice takes effect once.
-- KEYS[1] state (hash)  KEYS[2] content (stream, channel)  KEYS[3] lease (string)
-- ARGV[1] epoch  ARGV[2] token of the owner  ARGV[3] number of the chunk in this attempt, from 1
-- ARGV[4] lease in ms  ARGV[5] tokens in  ARGV[6] tokens out of the reply so far  ARGV[7] body of the chunk
-- Return the lease status: 1 held, 2 held with a request to end the turn, 0 lost.
-- Cost: O(1), and O(subscribers of the channel) for PUBLISH.
local now = redis.call('HMGET', KEYS[1], 'epoch', 'owner', 'emitted', 'cancel_epoch')
if now[1] ~= ARGV[1] or now[2] ~= ARGV[2] then return 0 end
redis.call('SET', KEYS[3], ARGV[2], 'PX', ARGV[4])
if tonumber(now[3]) < tonumber(ARGV[3]) then
  redis.call('HSET', KEYS[1], 'emitted', ARGV[3], 'attempt_tokens_in', ARGV[5], 'attempt_tokens_out', ARGV[6])
  publish(KEYS[1], KEYS[2], 'chunks', 'events', ARGV[7])
end
return now[4] == ARGV[1] and 2 or 1
