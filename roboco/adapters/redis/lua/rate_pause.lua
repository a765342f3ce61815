-- rate_pause: let nobody ask a model for a while, since its server said so.
-- KEYS[1] until when nobody may ask, in ms (string)
-- ARGV[1] for how many ms
-- Returns until when, in ms; a pause that lasts longer stands.
local time = redis.call('TIME')
local till = time[1] * 1000 + math.floor(time[2] / 1000) + tonumber(ARGV[1])
local now = tonumber(redis.call('GET', KEYS[1]) or '0')
if now >= till then return now end
redis.call('SET', KEYS[1], till, 'PX', ARGV[1])
return till
