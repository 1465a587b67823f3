-- Resume paused queues, and wake waiters for their due jobs.
--
-- parts: waiters
-- keys: paused
-- arguments: now, the number of queues, the queues

local resumed, is_resumed = base.list(), {}
base.call_with("SREM", key.paused, resumed)
for _, queue in ipairs(resumed) do
  is_resumed[queue] = true
end
for _, lane in ipairs(call("SMEMBERS", key.open)) do
  if is_resumed[lanes.names_of(lane)] then
    lanes.arrived[lane] = lanes.number(key.due, lane)
  end
end
waiters.wake()
