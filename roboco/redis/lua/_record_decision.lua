-- record_decision: record a decision as the pending work of a task and publish its events. A library of other scripts.
--   state   hash: the task            events  stream and channel of events
--   epoch   the new fence
--   first   index in ARGV of the decision: a token of this call (a call that is sent twice takes effect once), phase,
--           status, reason, agent, routing (JSON), then the bodies of the events
-- Return the epoch.
-- Cost: O(events), of which callers send a few.
local function record_decision(state, events, epoch, first)
  redis.call('HSET', state, 'epoch', epoch, 'op_token', ARGV[first], 'phase', ARGV[first + 1],
    'status', ARGV[first + 2], 'reason', ARGV[first + 3], 'agent', ARGV[first + 4],
    'routing', ARGV[first + 5], 'attempt', 1, 'owner', '', 'emitted', 0, 'redeliveries', 0, 'handovers', 0,
    'dispatched_at', redis.call('TIME')[1])
  for i = first + 6, #ARGV do publish(state, events, 'events', 'chunks', ARGV[i]) end
  return epoch
end
