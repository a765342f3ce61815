-- end_call_wait: end the wait of a tool call that was released with a reason. A library of other scripts.
--   state   hash: the task            calls  hash: its calls
--   epoch   epoch of the calls        id     id of the call
--   others  why other calls of the step wait, or '' if the caller does not know
-- Once no call of the step waits, the task has no reason. Until then it has `others`, or keeps the reason that it has.
-- Return true if the call waited.
-- Cost: O(1).
local function end_call_wait(state, calls, epoch, id, others)
  if redis.call('HGET', calls, id .. ':wait_epoch') ~= epoch then return false end
  redis.call('HSET', calls, id .. ':wait_epoch', '')
  if redis.call('HGET', state, 'call_wait_epoch') ~= epoch then return true end
  if redis.call('HINCRBY', state, 'call_waits', -1) <= 0 then
    redis.call('HSET', state, 'reason', '', 'call_wait_epoch', '')
  elseif others ~= '' then
    redis.call('HSET', state, 'reason', others)
  end
  return true
end
