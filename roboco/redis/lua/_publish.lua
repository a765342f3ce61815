-- publish: number a message, append it to its log and publish it on the channel of the same name. A library of other
-- scripts.
--   state  hash: the task            log    stream and channel of the message
--   mine   field: the counter of this channel
--   other  field: the counter of the other channel. The message carries its value, so that followers can merge both
--          channels into one order.
--   body   JSON of the message without its opening brace
-- The field `event_bytes` counts the bytes of the events in the log: `trim_logs` subtracts those that it removes.
-- Return the number of the message.
-- Cost: O(1), and O(subscribers of the channel) for PUBLISH.
local function publish(state, log, mine, other, body)
  local number = redis.call('HINCRBY', state, mine, 1)
  local fields = redis.call('HMGET', state, 'generation', other)
  local message = '{"seq":' .. number .. ',"generation":"' .. fields[1]
    .. '","' .. other .. '":' .. fields[2] .. ',' .. body
  redis.call('XADD', log, number .. '-0', 'm', message)
  if mine == 'events' then redis.call('HINCRBY', state, 'event_bytes', #message) end
  redis.call('PUBLISH', log, message)
  return number
end
