-- Jobs that are enqueued: the queues and types that they are of, then of each job its id, what a store has to know of
-- it, `names,rank,run_at,delay,max_attempts,max_crashes,key,on_conflict`, and its content.
--
-- parts: rows lanes tally waking
-- keys: jobs keys catalogue

local FIRST_LANE, FIRST_SEQUENCE = 1000000000, 10000000000000

local arriving = {}

function arriving.read(names_by_number)
  local entry, names = { id = base.argument() }, nil
  names, entry.rank, entry.run_at, entry.delay, entry.max_attempts, entry.max_crashes, entry.key, entry.on_conflict =
    match(base.argument(), "^(%d+),(%d+),(%d*),(%d+),([^,]*),(%d+),([^,]*),(%a+)$")
  entry.names = names_by_number[tonumber(names)]
  entry.content = base.argument()
  return entry
end

-- Return who has the keys of these entries.
local function holders_of(entries)
  local fields, holders = {}, {}
  for _, entry in ipairs(entries) do
    if entry.key ~= "null" then
      entry.field = match(entry.names, "^[^,]*,") .. entry.key
      fields[#fields + 1] = entry.field
    end
  end
  for n, holder in ipairs(base.values_of(key.keys, fields)) do
    holders[fields[n]] = holder
  end
  return holders
end

-- Return the entries to be stored; and of the others where they stand and which job they are. If one is refused, return
-- nil, and where it stands and which job has its key.
function arriving.planned(entries)
  local ids, holders = {}, holders_of(entries)
  for n, entry in ipairs(entries) do
    ids[n] = entry.id
  end
  local stored, new, there, is_new = rows.of(ids), {}, {}, {}
  for n, entry in ipairs(entries) do
    local holder = entry.field and holders[entry.field]
    if stored[n] or is_new[entry.id] then
      there[#there + 1], there[#there + 2] = n, entry.id
    elseif holder and entry.on_conflict == "raise" then
      return nil, { n, holder }
    elseif holder then
      there[#there + 1], there[#there + 2] = n, holder
    else
      new[#new + 1], is_new[entry.id] = entry, true
      if entry.field then
        holders[entry.field] = entry.id
      end
    end
  end
  return new, there
end

-- Return the lane of a queue and type, made if there is none.
local function lane_of(names)
  local lane = call("HGET", key.lanes, names)
  if not lane then
    lane = whole(FIRST_LANE + call("HINCRBY", key.store, "lanes", 1))
    changes.set(key.lanes, names, lane)
    changes.set(key.lanes, lane, names)
    lanes.names[lane] = { match(names, "^([^,]*),(.*)$") }
  end
  return lane
end

-- Return a job that was never claimed.
local function job_of(entry, lane, sequence)
  local run_at = entry.run_at ~= "" and entry.run_at or whole(now + entry.delay)
  local job = { STATE.queued, lane, entry.rank, sequence, run_at, "0", "0", "0", entry.max_attempts, entry.max_crashes }
  job.leased_until, job.started_at, job.created_at, job.finished_at = "null", "null", present, "null"
  job.is_asked, job.first, job.following, job.is_dropped = "0", "0", "0", "0"
  job.key, job.worker, job.token, job.progress = entry.key, "null", "null", "null"
  job.salt, job.id = rows.salt_of(sequence), entry.id
  return job
end

function arriving.store(new)
  if not new[1] then
    return
  end
  -- First, since a server without memory refuses this.
  local last = call("HINCRBY", key.store, "sequence", #new)
  if last == #new then
    call("HSET", key.store, "layout", LAYOUT)
  end
  local lane_by_names = {}
  for n, entry in ipairs(new) do
    local lane = lane_by_names[entry.names] or lane_of(entry.names)
    lane_by_names[entry.names] = lane
    local job = job_of(entry, lane, whole(FIRST_SEQUENCE + last - #new + n))
    changes.set(key.jobs, job.id, entry.content)
    changes.put(key.catalogue, job.id, job.sequence)
    if entry.field then
      changes.set(key.keys, entry.field, job.id)
    end
    rows.change(job)
    lanes.join(job)
    tally.add(lane, "enqueued", 1)
  end
  changes.save()
  waking.wake()
end
