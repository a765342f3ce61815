-- trim_logs: remove events that are archived in the workspace from the log, and old chunks from theirs.
-- The last event always remains: it shows the generation and the end of both logs.
-- KEYS[1] state (hash)  KEYS[2] events (stream)  KEYS[3] content (stream)
-- ARGV[1] generation of the logs  ARGV[2] first event of the log, as the caller has read it
-- ARGV[3] last event that is archived  ARGV[4] first event to keep, at most the one after ARGV[3]
-- ARGV[5] bytes of the events from ARGV[2] to before ARGV[4]  ARGV[6] first chunk to keep, or 0 for all chunks
-- Return 1, also if the logs were trimmed like this before; 0 if the generation or the log differs.
-- Cost: O(removed events and chunks), each once.
local now = redis.call('HMGET', KEYS[1], 'generation', 'events', 'first_event', 'archived', 'chunks')
if now[1] ~= ARGV[1] then return 0 end
local first, archived = now[3] or '1', tonumber(now[4] or 0)
if first == ARGV[4] and archived == tonumber(ARGV[3]) and ARGV[2] ~= ARGV[4] then return 1 end
if first ~= ARGV[2] or archived > tonumber(ARGV[3]) or tonumber(ARGV[3]) > tonumber(now[2]) then return 0 end
if tonumber(ARGV[4]) > math.min(tonumber(ARGV[3]) + 1, tonumber(now[2])) then return 0 end
redis.call('HSET', KEYS[1], 'first_event', ARGV[4], 'archived', ARGV[3])
if ARGV[2] ~= ARGV[4] then
  redis.call('XTRIM', KEYS[2], 'MINID', ARGV[4] .. '-0')
  redis.call('HINCRBY', KEYS[1], 'event_bytes', -tonumber(ARGV[5]))
end
if tonumber(ARGV[6]) > tonumber(now[5]) then
  redis.call('DEL', KEYS[3])
elseif ARGV[6] ~= '0' then
  redis.call('XTRIM', KEYS[3], 'MINID', ARGV[6] .. '-0')
end
return 1
