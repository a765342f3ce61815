-- restart: void an attempt at a turn whose lease has expired, and move the fence. Add the tokens of its reply to those
-- of unfinished replies at this step.
-- KEYS[1] state (hash)  KEYS[2] events (stream, channel)  KEYS[3] lease (string)
-- ARGV[1] expected epoch  ARGV[2] token of this call: a call that is sent twice takes effect once
-- ARGV[3] token of the owner, which may end its own live lease, or ''  ARGV[4] body of the event
-- ARGV[5] 1 if the owner hands the turn over, so that the attempt does not count as a failed one, else 0
-- Return the new epoch, or 0 if the fence moved or another owner's lease is live.
-- Cost: O(1).
local now = redis.call('HMGET', KEYS[1], 'epoch', 'op_token', 'owner', 'attempt', 'emitted', 'seq')
if not now[1] then return 0 end
if now[2] == ARGV[2] then return tonumber(now[1]) end
if now[1] ~= ARGV[1] then return 0 end
if redis.call('EXISTS', KEYS[3]) == 1 and now[3] ~= ARGV[3] then return 0 end
if tonumber(now[5]) > 0 then
  local used = redis.call('HMGET', KEYS[1], 'unfinished_seq', 'unfinished_tokens_in', 'unfinished_tokens_out',
    'attempt_tokens_in', 'attempt_tokens_out')
  local before = used[1] == now[6]
  redis.call('HSET', KEYS[1], 'unfinished_seq', now[6],
    'unfinished_tokens_in', (before and tonumber(used[2]) or 0) + tonumber(used[4] or 0),
    'unfinished_tokens_out', (before and tonumber(used[3]) or 0) + tonumber(used[5] or 0))
end
redis.call('HSET', KEYS[1], 'epoch', tonumber(ARGV[1]) + 1, 'op_token', ARGV[2], 'attempt', tonumber(now[4]) + 1,
  'owner', '', 'emitted', 0, 'redeliveries', 0, 'dispatched_at', redis.call('TIME')[1])
if ARGV[5] == '1' then redis.call('HINCRBY', KEYS[1], 'handovers', 1) end
redis.call('DEL', KEYS[3])
publish(KEYS[1], KEYS[2], 'events', 'chunks', ARGV[4])
return tonumber(ARGV[1]) + 1
