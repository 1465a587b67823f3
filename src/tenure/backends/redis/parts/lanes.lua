-- The queued jobs of one queue and type are a lane: those that are due in the order in which they are claimed, and the
-- scheduled ones by their time.
--
-- `open` has the lanes with due jobs, and maybe some without. `upcoming` has, for each lane with scheduled jobs, the
-- time of the first, or an earlier one.
--
-- parts: changes
-- keys: lanes due scheduled upcoming open

local BEYOND = ":" -- the character after the digits
local SOON = 1000000 -- microseconds within which somebody who waits has to know of a scheduled job

local lanes = { names = {}, opened = {}, arrived = {}, earliest = {} }

-- Read the queues and types of these lanes.
function lanes.learn(some)
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
    lanes.learn({ lane })
  end
  return unpack(lanes.names[lane])
end

function lanes.place_among_due(job)
  return job.lane .. job.rank .. job.run_at .. job.sequence .. job.id
end

function lanes.place_among_scheduled(job)
  return job.lane .. job.run_at .. job.sequence .. job.rank .. job.id
end

function lanes.note_due(lane)
  lanes.opened[lane] = true
  lanes.arrived[lane] = (lanes.arrived[lane] or 0) + 1
end

-- Put a queued job where its time says.
function lanes.join(job)
  local lane, run_at = job.lane, tonumber(job.run_at)
  if run_at <= now then
    changes.put(key.due, lanes.place_among_due(job))
    lanes.note_due(lane)
    return
  end
  changes.put(key.scheduled, lanes.place_among_scheduled(job))
  lanes.earliest[lane] = math.min(lanes.earliest[lane] or run_at, run_at)
  if run_at - now < SOON then
    lanes.arrived[lane] = lanes.arrived[lane] or 1
  end
end

-- Take a queued job out of its lane.
function lanes.leave(job)
  changes.take_out(key.due, lanes.place_among_due(job))
  changes.take_out(key.scheduled, lanes.place_among_scheduled(job))
end

-- Write what joined and left, for lanes are about to be read.
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

-- Return the range of what begins with a prefix, up to a bound if there is one.
function lanes.range(prefix, bound)
  return "[" .. prefix, "(" .. prefix .. (bound or "") .. BEYOND
end

-- Return the first member of a line that begins with a prefix; nil if there is none.
function lanes.first(line, prefix, bound)
  local from, to = lanes.range(prefix, bound)
  return call("ZRANGEBYLEX", line, from, to, "LIMIT", 0, 1)[1]
end

function lanes.number(line, prefix, bound)
  local from, to = lanes.range(prefix, bound)
  return call("ZLEXCOUNT", line, from, to)
end

changes.finally[#changes.finally + 1] = lanes.write
