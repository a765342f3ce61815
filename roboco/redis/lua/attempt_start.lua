-- attempt_start: start an attempt at work, unless another attempt has the lease.
-- KEYS[1] attempts that have not ended (set)  KEYS[2] lease of the running attempt (string)
-- ARGV[1] token of the attempt  ARGV[2] lease in ms, or '' for none  ARGV[3] seconds for which the attempt counts
-- Return the number of earlier attempts that have not ended, or -1 if another attempt has the lease.
-- Cost: O(1).
if ARGV[2] ~= '' then
  local holder = redis.call('SET', KEYS[2], ARGV[1], 'NX', 'PX', ARGV[2], 'GET')
  if holder and holder ~= ARGV[1] then return -1 end
end
redis.call('SADD', KEYS[1], ARGV[1])
redis.call('EXPIRE', KEYS[1], ARGV[3])
return redis.call('SCARD', KEYS[1]) - 1
