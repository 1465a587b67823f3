-- Settle claims, then claim due jobs for a worker.
--
-- parts: settling claiming
-- arguments: now, the arguments of settle, the arguments of claim
-- result: the result of settle, and the result of claim

local settlements, request = settling.read(), claiming.read()
local landed = settling.settle_all(settlements)
return { landed, claiming.claim(request) }
