-- Prepended to every script that notes a worker which cannot do some work.
-- add_decline: add a worker to those that have declined the work of an epoch.
--   stored  what is stored: epoch, count and distinct names, a line each, or ''   epoch  of the work
--   worker  its name
-- Returns what is to be stored. At most 10,000 characters of names are kept; the count goes on.
local function add_decline(stored, epoch, worker)
  local of_epoch, count, names = string.match(stored, '^(%d+)\n(%d+)(.*)$')
  if of_epoch ~= epoch then count, names = 0, '' end
  if #names < 10000 and not string.find(names .. '\n', '\n' .. worker .. '\n', 1, true) then
    names = names .. '\n' .. worker
  end
  return epoch .. '\n' .. (count + 1) .. names
end
