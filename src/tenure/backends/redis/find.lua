-- Scan jobs in enqueue order or in reverse, and return the matching ones.
--
-- parts: lanes job_json
-- keys: catalogue stopped leases
-- arguments: now, source (all, stopped, running, or ids), the number of ids, the ids; newest_first (1 or 0), cursor
--            (empty to begin), how many jobs to scan, how many to return; then the conditions, empty if unset: states
--            (digits), queues, types, key, worker, since, attempts_over, due (1 or 0), error
-- result: the jobs as JSON; the sequence number of the last scanned job, empty at the end; the number of scanned jobs

local MOST_SORTED = 5000 -- with more running jobs, scan all jobs instead of sorting

local source, ids = base.argument(), base.list()
local is_newest_first, cursor = base.argument() == "1", base.argument()
local most, limit = tonumber(base.argument()), tonumber(base.argument())
local states, queues, types = base.argument(), base.names(), base.names()
local wanted_key, worker = base.argument(), base.argument()
local since, attempts_over, is_due, needle = base.argument(), base.argument(), base.argument(), base.argument()

local function is_beyond(sequence)
  return cursor == "" or (is_newest_first and sequence < cursor or not is_newest_first and sequence > cursor)
end

-- Return the jobs beyond the cursor, sorted by sequence number.
local function sorted(some)
  local found = {}
  for _, job in ipairs(some) do
    if job and is_beyond(job.sequence) then
      found[#found + 1] = job
    end
  end
  table.sort(found, function(one, other)
    if is_newest_first then
      return one.sequence > other.sequence
    end
    return one.sequence < other.sequence
  end)
  return found
end

local function without_repeats(some)
  local found, seen = {}, {}
  for _, each in ipairs(some) do
    if not seen[each] then
      found[#found + 1], seen[each] = each, true
    end
  end
  return found
end

-- Return the next jobs to scan: up to `most`, plus one to detect the end.
local function candidates()
  if source == "ids" then
    return sorted(rows.of(without_repeats(ids)))
  end
  if source == "running" and call("ZCARD", key.leases) <= MOST_SORTED then
    local members = {}
    for _, member in ipairs(call("ZRANGE", key.leases, 0, -1)) do
      if is_beyond(sub(member, 1, 14)) then
        members[#members + 1] = member
      end
    end
    table.sort(members)
    local found = {}
    for n = 1, math.min(#members, most + 1) do
      found[n] = sub(members[is_newest_first and #members + 1 - n or n], 15)
    end
    return rows.of(found)
  end
  local sorted_set = source == "stopped" and key.stopped or key.catalogue
  local start = cursor == "" and (is_newest_first and "+inf" or "-inf") or "(" .. cursor
  if is_newest_first then
    return rows.of(call("ZREVRANGEBYSCORE", sorted_set, start, "-inf", "LIMIT", 0, most + 1))
  end
  return rows.of(call("ZRANGEBYSCORE", sorted_set, start, "+inf", "LIMIT", 0, most + 1))
end

local function last_error(job)
  for number = job.next_line - 1, tonumber(job.first_line), -1 do
    local line = cjson.decode(call("HGET", key.history, number .. ":" .. job.id))
    if line[1] ~= "operator" and line[7] ~= cjson.null then
      return line[7]
    end
  end
  return ""
end

local is_wanted_lane = {}

local function is_of_lane(lane)
  if is_wanted_lane[lane] == nil then
    local queue, type = lanes.names_of(lane)
    is_wanted_lane[lane] = (not queues or queues[queue] or false) and (not types or types[type] or false)
  end
  return is_wanted_lane[lane]
end

local function matches(job)
  return (states == "" or string.find(states, job.state, 1, true))
    and ((not queues and not types) or is_of_lane(job.lane))
    and (wanted_key == "" or job.key == wanted_key)
    and (worker == "" or job.worker == worker)
    and (attempts_over == "" or tonumber(job.attempts) > tonumber(attempts_over))
    and (is_due == "" or (job.state == STATE.queued and (tonumber(job.run_at) <= now) == (is_due == "1")))
    and (since == "" or tonumber(job.finished_at == "null" and job.created_at or job.finished_at) >= now - since)
    and (needle == "" or string.find(last_error(job), needle, 1, true))
end

local found, last, scanned = {}, "", 0
local some = candidates()
for n, job in ipairs(some) do
  scanned = n
  if matches(job) then
    found[#found + 1] = job
  end
  if #found == limit or n == most then
    last = job.sequence
    break
  end
end
return { job_json.as_json(found), last, scanned }
