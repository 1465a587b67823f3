-- Take back claims: those whose lease ran out, or all of a worker.
--
-- parts: expiry waking
-- arguments: now, limit, worker (empty for none), the number of jobs that it had started (-1 if that is not known),
--            these
-- result: of each its id, its state, its worker and its fence

local MOST_SORTED = 5000 -- of a worker that holds more, some are taken back first

local limit, worker, started = tonumber(base.argument()), base.argument(), base.names()

local function expires_first(one, other)
  return one.leased_until .. one.sequence < other.leased_until .. other.sequence
end

local function held_by_worker()
  local start, found = worker .. ",", {}
  local from, to = "[" .. start, "(" .. start .. "\255"
  for _, place in ipairs(call("ZRANGEBYLEX", key.held, from, to, "LIMIT", 0, MOST_SORTED)) do
    for _, job in ipairs(ending.held_by(sub(place, #start + 1))) do
      found[#found + 1] = job
    end
    if #found >= MOST_SORTED then
      break
    end
  end
  table.sort(found, expires_first)
  return found
end

local reaped = {}
for n, job in ipairs(worker == "" and expiry.expired(limit) or held_by_worker()) do
  if n > limit then
    break
  end
  local holder, fence = job.worker, job.fence
  if not started or started[job.id] then
    expiry.expire(job, worker ~= "")
  else
    job.attempts = whole(job.attempts - 1)
    ending.end_claim(job, "released", job.is_asked == "1" and STATE.cancelled or STATE.queued, "null")
  end
  for _, each in ipairs({ job.id, job.state, holder, fence }) do
    reaped[#reaped + 1] = each
  end
end

changes.save()
waking.wake()
return reaped
