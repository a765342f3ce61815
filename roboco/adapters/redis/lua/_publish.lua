-- Prepended to every script that tells followers something.
-- publish: numbers a message, appends it to its log and publishes it on the channel of the same name.
--   state  hash of the task           log    stream and channel of the message
--   mine   counter of this channel    other  counter of the other channel, which the message carries too
--   body   the message's JSON without its opening brace
-- Returns the message's number.
local function publish(state, log, mine, other, body)
  local number = redis.call('HINCRBY', state, mine, 1)
  local seen = redis.call('HMGET', state, 'generation', other)
  local message = '{"seq":' .. number .. ',"generation":"' .. seen[1] .. '","' .. other .. '":' .. seen[2] .. ',' .. body
  redis.call('XADD', log, number .. '-0', 'm', message)
  redis.call('PUBLISH', log, message)
  return number
end
