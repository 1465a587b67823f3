-- Return the facts that decide when a job is claimed.
--
-- parts: lane_merge job_json registry
-- arguments: now, id, queues, types, how many due jobs that are not promoted yet to scan, up to which number to count
-- result: nil for an unknown job; else the current time, the job as JSON, whether its queue is paused (1 or 0), the
--         number of jobs ahead, and the last heartbeat of its worker as JSON, or null

local id, queues, types, most_came_due, most_ahead =
  base.argument(), base.names(), base.names(), tonumber(base.argument()), tonumber(base.argument())

local job = rows.of({ id })[1]
if not job then
  return nil
end

local function number_ahead()
  local is_wanted, order, number = lane_merge.lane_filter(queues, types), job.rank .. job.run_at .. job.sequence, 0
  for _, lane in ipairs(lane_merge.open(queues, types, is_wanted)) do
    number = number + call("ZLEXCOUNT", key.due, "[" .. lane, "(" .. lane .. order)
  end
  for _, member in ipairs((lane_merge.first_of(key.scheduled, lane_merge.ready(is_wanted), most_came_due, now_text))) do
    if sub(member, 41, 45) .. sub(member, 11, 40) < order then
      number = number + 1
    end
  end
  return math.min(number, most_ahead)
end

local ahead, holder = 0, "null"
if job.state == STATE.queued and tonumber(job.run_at) <= now then
  ahead = number_ahead()
elseif job.state == STATE.running then
  local known = registry.find(job.worker)
  holder = known and "[" .. known.started_at .. "," .. known.beat_at .. "," .. known.heartbeat .. "]" or "null"
end
local is_paused = call("SISMEMBER", key.paused, (lanes.names_of(job.lane)))
return { now_text, job_json.as_json({ job }), is_paused, ahead, holder }
