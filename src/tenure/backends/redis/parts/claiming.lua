-- Claim jobs. The arguments are worker, token, limit, lease, whether to reap (1 or 0), queues, types.
--
-- parts: expiry lane_merge job_json waiters

local SWEEP = 1000

local claiming = {}

function claiming.read()
  return {
    worker = base.argument(),
    token = base.argument(),
    limit = tonumber(base.argument()),
    lease = tonumber(base.argument()),
    is_to_reap = base.argument() == "1",
    queues = base.names(),
    types = base.names(),
  }
end

local function reap()
  for _, job in ipairs(expiry.expired(SWEEP)) do
    if job.state == STATE.running then
      expiry.expire(job)
    end
  end
end

local function take(members, request)
  local ids, by_lane = {}, {}
  for n, member in ipairs(members) do
    ids[n] = sub(member, 46)
  end
  local taken = rows.of(ids)
  local started_at, leased_until = now_text, whole(now + request.lease)
  for n, job in ipairs(taken) do
    changes.take_out(key.due, members[n])
    job.state = STATE.running
    job.fence = whole(job.fence + 1)
    job.attempts = whole(job.attempts + 1)
    job.worker, job.token = request.worker, request.token
    job.started_at, job.leased_until, job.progress = started_at, leased_until, "null"
    changes.put(key.leases, endings.lease_member(job), leased_until)
    rows.change(job)
    by_lane[job.lane] = (by_lane[job.lane] or 0) + 1
  end
  for lane, number in pairs(by_lane) do
    counts.add(lane, STATE.running, number)
    counts.add(lane, "claimed", number)
    lanes.arrived[lane] = lanes.arrived[lane] and lanes.arrived[lane] - number
  end
  if taken[1] then
    if endings.ended_by_token[request.token] then
      -- A claim with the same token has just ended, perhaps of another worker.
      changes.take_out(key.held, endings.worker_by_token[request.token] .. "," .. request.token)
      endings.ended_by_token[request.token] = nil
    end
    changes.set(key.tokens, request.token, request.worker .. "\n" .. concat(ids, "\n"))
    changes.set(key.tokens, request.token .. "#", #ids)
    changes.put(key.held, request.worker .. "," .. request.token)
  end
  return taken
end

-- Reap expired leases, promote scheduled jobs, claim the first due jobs, and save. Return the claimed jobs as JSON.
function claiming.claim(request)
  local taken = endings.held_by(request.token)
  if not taken[1] then
    base.allow_oom_writes()
    if request.is_to_reap then
      reap()
    end
    lanes.write()
    local is_wanted = lane_merge.lane_filter(request.queues, request.types)
    lane_merge.promote(is_wanted, SWEEP)
    local open = lane_merge.open(request.queues, request.types, is_wanted)
    local members, emptied = lane_merge.first_of(key.due, open, request.limit)
    taken = take(members, request)
    for _, lane in ipairs(emptied) do
      call("SREM", key.open, lane)
    end
  end
  changes.save()
  waiters.wake()
  return job_json.as_json(taken)
end
