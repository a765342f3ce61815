-- Prepended to every script that writes a choice down.
-- record_choice: a choice becomes what the task is doing, and followers are told so.
--   state  hash of the task           events  stream and channel of what is told
--   epoch  the fence from now on      first   where in ARGV the choice begins: a token of this call, so that sending it
--          twice is sending it once, phase, status, reason, agent, routing (JSON), and the events' bodies
-- Returns the epoch.
local function record_choice(state, events, epoch, first)
  redis.call('HSET', state, 'epoch', epoch, 'op_token', ARGV[first], 'phase', ARGV[first + 1], 'status', ARGV[first + 2],
    'reason', ARGV[first + 3], 'agent', ARGV[first + 4], 'routing', ARGV[first + 5], 'attempt', 1, 'owner', '',
    'emitted', 0, 'redeliveries', 0, 'dispatched_at', redis.call('TIME')[1])
  for i = first + 6, #ARGV do publish(state, events, 'events', 'chunks', ARGV[i]) end
  return epoch
end
