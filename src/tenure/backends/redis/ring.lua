-- Wake another of those who wait for jobs of these queues and types, if there are such jobs.
--
-- parts: waking lines
-- arguments: now, queues, types

local queues, types = base.names(), base.names()
for _, lane in ipairs(lines.open(queues, types, lines.wanting(queues, types))) do
  if lanes.first(key.due, lane) then
    lanes.arrived[lane] = 1
    break
  end
end
waking.wake()
