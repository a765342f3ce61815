-- add_decline: add a worker to those that declined some work because they cannot do it. A library of other scripts.
--   stored  the text in Redis: epoch, count and distinct names, a line each, or ''
--   epoch   epoch of the work
--   worker  name of the worker
-- Return the text to store. It holds at most 10,000 characters of names; the count keeps growing.
-- Cost: O(length of the text), at most about 10,000 characters.
local function add_decline(stored, epoch, worker)
  local of_epoch, count, names = string.match(stored, '^(%d+)\n(%d+)(.*)$')
  if of_epoch ~= epoch then count, names = 0, '' end
  if #names < 10000 and not string.find(names .. '\n', '\n' .. worker .. '\n', 1, true) then
    names = names .. '\n' .. worker
  end
  return epoch .. '\n' .. (count + 1) .. names
end
