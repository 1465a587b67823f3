-- A lane holds the queued jobs of one queue and type: due jobs in claim order, and scheduled jobs sorted by time.
--
-- `open` contains every lane with due jobs, and perhaps lanes without. `upcoming` maps every lane with scheduled jobs
-- to the time of its first scheduled job, or to an earlier time.
--
-- parts: changes
-- keys: lanes due scheduled upcoming open

local BEYOND = ":" -- the character that follows '9'
local SOON = 1000000 -- microseconds: notify waiters of a scheduled job that comes due sooner

local lanes = { names = {}, opened = {}, arrived = {}, earliest = {} }

-- Read the queues and types of lanes.
function lanes.load_names(some)
  local unknown = {}
  for _, lane in ipairs(some) do
    if not lanes.names[lane] then
      unknown[#unknown + 1] = lane
    end
  end
  for n, names in ipairs(base.values_of(key.lanes, unknown)) do
    lanes.names[unknown[n]] = { match(names, "^([^,]*),(.*)$") }
  end
end

-- Return the queue and the type of a lane.
function lanes.names_of(lane)
  if not lanes.names[lane] then
    lanes.load_names({ lane })
  end
  return unpack(lanes.names[lane])
end

function lanes.due_member(job)
  return job.lane .. job.rank .. job.run_at .. job.sequence .. job.id
end

function lanes.scheduled_member(job)
  return job.lane .. job.run_at .. job.sequence .. job.rank .. job.id
end

function lanes.note_due(lane)
  lanes.opened[lane] = true
  lanes.arrived[lane] = (lanes.arrived[lane] or 0) + 1
end

-- Add a queued job to its lane: to the due or to the scheduled jobs.
function lanes.join(job)
  local lane, run_at = job.lane, tonumber(job.run_at)
  if run_at <= now then
    changes.put(key.due, lanes.due_member(job))
    lanes.note_due(lane)
    return
  end
  changes.put(key.scheduled, lanes.scheduled_member(job))
  lanes.earliest[lane] = math.min(lanes.earliest[lane] or run_at, run_at)
  if run_at - now < SOON then
    lanes.arrived[lane] = lanes.arrived[lane] or 1
  end
end

-- Remove a queued job from its lane.
function lanes.leave(job)
  changes.take_out(key.due, lanes.due_member(job))
  changes.take_out(key.scheduled, lanes.scheduled_member(job))
end

-- Write the pending changes of lanes, before the script reads lanes.
function lanes.write()
  changes.write(key.due)
  changes.write(key.scheduled)
  for lane in pairs(lanes.opened) do
    call("SADD", key.open, lane)
  end
  for lane, run_at in pairs(lanes.earliest) do
    call("ZADD", key.upcoming, "LT", whole(run_at), lane)
  end
  lanes.opened, lanes.earliest = {}, {}
end

-- Return the lexical range of a prefix, up to an optional bound.
function lanes.range(prefix, bound)
  return "[" .. prefix, "(" .. prefix .. (bound or "") .. BEYOND
end

-- Return the first member with a prefix; nil if there is none.
function lanes.first(sorted_set, prefix, bound)
  local from, to = lanes.range(prefix, bound)
  return call("ZRANGEBYLEX", sorted_set, from, to, "LIMIT", 0, 1)[1]
end

function lanes.number(sorted_set, prefix, bound)
  local from, to = lanes.range(prefix, bound)
  return call("ZLEXCOUNT", sorted_set, from, to)
end

changes.finally[#changes.finally + 1] = lanes.write
