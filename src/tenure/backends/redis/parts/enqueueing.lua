-- Store new jobs. The arguments are the queue and type pairs, then for each job its id, the fields that scripts read,
-- `names,rank,run_at,delay,max_attempts,max_crashes,key,on_conflict`, and the content. `names` is the number of a pair.
--
-- parts: rows lanes counts waiters
-- keys: jobs keys catalogue

local FIRST_LANE, FIRST_SEQUENCE = 1000000000, 10000000000000

local enqueueing = {}

function enqueueing.read(names_by_number)
  local entry, names = { id = base.argument() }, nil
  names, entry.rank, entry.run_at, entry.delay, entry.max_attempts, entry.max_crashes, entry.key, entry.on_conflict =
    match(base.argument(), "^(%d+),(%d+),(%d*),(%d+),([^,]*),(%d+),([^,]*),(%a+)$")
  entry.names = names_by_number[tonumber(names)]
  entry.content = base.argument()
  return entry
end

-- Return the ids of the jobs that have the keys of the entries, by key field.
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

-- Return the entries to store, and for each other entry its position and the id of the existing job. If a key is taken
-- and the entry has on_conflict=raise, return nil, and the position of the entry and the id of the job with the key.
function enqueueing.plan(entries)
  local ids, holders = {}, holders_of(entries)
  for n, entry in ipairs(entries) do
    ids[n] = entry.id
  end
  local stored, new, existing, is_new = rows.of(ids), {}, {}, {}
  for n, entry in ipairs(entries) do
    local holder = entry.field and holders[entry.field]
    if stored[n] or is_new[entry.id] then
      existing[#existing + 1], existing[#existing + 2] = n, entry.id
    elseif holder and entry.on_conflict == "raise" then
      return nil, { n, holder }
    elseif holder then
      existing[#existing + 1], existing[#existing + 2] = n, holder
    else
      new[#new + 1], is_new[entry.id] = entry, true
      if entry.field then
        holders[entry.field] = entry.id
      end
    end
  end
  return new, existing
end

-- Return the lane of a queue and type; create the lane if it does not exist.
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

-- Build a new job.
local function job_of(entry, lane, sequence)
  local run_at = entry.run_at ~= "" and entry.run_at or whole(now + entry.delay)
  local job = { STATE.queued, lane, entry.rank, sequence, run_at, "0", "0", "0", entry.max_attempts, entry.max_crashes }
  job.leased_until, job.started_at, job.created_at, job.finished_at = "null", "null", now_text, "null"
  job.cancel_requested, job.first_line, job.next_line, job.result_dropped = "0", "0", "0", "0"
  job.key, job.worker, job.token, job.progress = entry.key, "null", "null", "null"
  job.salt, job.id = rows.salt_of(sequence), entry.id
  return job
end

function enqueueing.store(new)
  if not new[1] then
    return
  end
  -- First, because a server that is out of memory rejects this command.
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
    counts.add(lane, "enqueued", 1)
  end
  changes.save()
  waiters.wake()
end
