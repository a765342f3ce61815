-- dead_letter_page: read dead letters, newest first, after the last one of the previous page.
-- KEYS[1] letters by id (hash)  KEYS[2] ids by the time at which they were stored (sorted set)
-- KEYS[3] bytes of each letter by id (hash)
-- ARGV[1] maximum of letters  ARGV[2] maximum of bytes; the first letter is read in any case
-- ARGV[3] time of the last letter of the previous page, or '+inf'  ARGV[4] its id
-- Return id, time and letter of each one, and 1 at the end if there are more, else 0.
-- Cost: O(log n) for each letter, and for each one with the same time as the last letter of the previous page.
local limit, max_bytes, before, last = tonumber(ARGV[1]), tonumber(ARGV[2]), ARGV[3], ARGV[4]
local found, letters, bytes, offset = {}, 0, 0, 0
while true do
  local page = redis.call('ZRANGE', KEYS[2], before, '-inf', 'BYSCORE', 'REV', 'LIMIT', offset, limit + 1, 'WITHSCORES')
  for i = 1, #page, 2 do
    local id, time = page[i], page[i + 1]
    if time ~= before or id < last then
      local size = tonumber(redis.call('HGET', KEYS[3], id) or '0')
      if letters == limit or (letters > 0 and bytes + size > max_bytes) then
        found[#found + 1] = 1
        return found
      end
      found[#found + 1] = id
      found[#found + 1] = time
      found[#found + 1] = redis.call('HGET', KEYS[1], id) or ''
      letters, bytes = letters + 1, bytes + size
    end
  end
  if #page < 2 * (limit + 1) then
    found[#found + 1] = 0
    return found
  end
  offset = offset + limit + 1
end
