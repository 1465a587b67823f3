-- End claims.
--
-- parts: settling waking
-- arguments: now, a list of three for each settlement: its id, what it says, and its error or result
-- result: a digit for each: 1 if it landed, 0 if it is lost

local landed = settling.settle_all(settling.read())
changes.save()
waking.wake()
return landed
