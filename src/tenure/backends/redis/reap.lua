-- Reap claims: those with an expired lease, or all claims of a worker.
--
-- parts: expiry waiters
-- arguments: now, limit, worker (empty: expired leases), the number of jobs that the worker had started (-1 if
--            unknown), the ids of these jobs
-- result: four values per reaped job: id, new state, worker, fence

local MOST_SORTED = 5000 -- with more held jobs, the order by expiry covers only some of them

local limit, worker, started = tonumber(base.argument()), base.argument(), base.names()

local function expires_first(one, other)
  return one.leased_until .. one.sequence < other.leased_until .. other.sequence
end

local function held_by_worker()
  local start, found = worker .. ",", {}
  local from, to = "[" .. start, "(" .. start .. "\255"
  for _, member in ipairs(call("ZRANGEBYLEX", key.held, from, to, "LIMIT", 0, MOST_SORTED)) do
    for _, job in ipairs(endings.held_by(sub(member, #start + 1))) do
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
    endings.end_claim(job, "released", job.cancel_requested == "1" and STATE.cancelled or STATE.queued, "null")
  end
  for _, each in ipairs({ job.id, job.state, holder, fence }) do
    reaped[#reaped + 1] = each
  end
end

changes.save()
waiters.wake()
return reaped
