-- Wake another waiter for a due job of the queues and types, if there is a due job.
--
-- parts: waiters lane_merge
-- arguments: now, queues, types

local queues, types = base.names(), base.names()
for _, lane in ipairs(lane_merge.open(queues, types, lane_merge.lane_filter(queues, types))) do
  if lanes.first(key.due, lane) then
    lanes.arrived[lane] = 1
    break
  end
end
waiters.wake()
