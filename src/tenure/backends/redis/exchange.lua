-- End claims, then take due jobs for a worker.
--
-- parts: settling taking
-- arguments: now, then as for settle, then as for claim
-- result: what settle returns, and what claim returns

local settlements, request = settling.read(), taking.read()
local landed = settling.settle_all(settlements)
return { landed, taking.claim(request) }
