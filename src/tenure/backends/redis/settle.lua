-- Settle claims.
--
-- parts: settling waiters
-- arguments: now, a list with three values per settlement: id, fields, and error or result (see parts/settling.lua)
-- result: one digit per settlement: 1 landed, 0 lost

local landed = settling.settle_all(settling.read())
changes.save()
waiters.wake()
return landed
