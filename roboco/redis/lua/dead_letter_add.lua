-- dead_letter_add: store a dead letter, in place of one with the same id. Remove the oldest letters while there are too
-- many letters or bytes.
-- KEYS[1] letters by id (hash)  KEYS[2] ids by the time at which they were stored (sorted set)
-- KEYS[3] bytes of each letter by id, and of all of them in the field "" (hash)
-- ARGV[1] id  ARGV[2] letter  ARGV[3] time  ARGV[4] maximum of letters  ARGV[5] maximum of bytes
-- Return the number of removed letters.
-- Cost: O(log n) for the letter and for each removed one. Each letter is removed once.
local id, letter, max_letters, max_bytes = ARGV[1], ARGV[2], tonumber(ARGV[4]), tonumber(ARGV[5])
local before = tonumber(redis.call('HGET', KEYS[3], id) or '0')
redis.call('HSET', KEYS[1], id, letter)
redis.call('HSET', KEYS[3], id, #letter)
redis.call('ZADD', KEYS[2], 'NX', ARGV[3], id)
local bytes = redis.call('HINCRBY', KEYS[3], '', #letter - before)
local letters = redis.call('HLEN', KEYS[1])
local removed = 0
while letters > 1 and (letters > max_letters or bytes > max_bytes) do
  local oldest = redis.call('ZRANGE', KEYS[2], 0, 0)[1]
  if not oldest then break end
  local size = tonumber(redis.call('HGET', KEYS[3], oldest) or '0') -- an earlier release has stored none
  redis.call('HDEL', KEYS[1], oldest)
  redis.call('ZREM', KEYS[2], oldest)
  redis.call('HDEL', KEYS[3], oldest)
  bytes = redis.call('HINCRBY', KEYS[3], '', -size)
  letters = redis.call('HLEN', KEYS[1])
  removed = removed + 1
end
if letters == 1 then -- an earlier release may have removed letters without their bytes: here the count is right again
  redis.call('DEL', KEYS[3])
  redis.call('HSET', KEYS[3], id, #letter)
  redis.call('HSET', KEYS[3], '', #letter)
end
return removed
