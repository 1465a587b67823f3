-- A claim: worker, token, limit, lease, whether it takes back what ran out (1 or 0), queues, types.
--
-- parts: expiry lines showing waking

local SWEEP = 1000

local taking = {}

function taking.read()
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

local function take(places, request)
  local ids, by_lane = {}, {}
  for n, place in ipairs(places) do
    ids[n] = sub(place, 46)
  end
  local taken = rows.of(ids)
  local started_at, leased_until = present, whole(now + request.lease)
  for n, job in ipairs(taken) do
    changes.take_out(key.due, places[n])
    job.state = STATE.running
    job.fence = whole(job.fence + 1)
    job.attempts = whole(job.attempts + 1)
    job.worker, job.token = request.worker, request.token
    job.started_at, job.leased_until, job.progress = started_at, leased_until, "null"
    changes.put(key.leases, ending.place_among_leases(job), leased_until)
    rows.change(job)
    by_lane[job.lane] = (by_lane[job.lane] or 0) + 1
  end
  for lane, number in pairs(by_lane) do
    tally.add(lane, STATE.running, number)
    tally.add(lane, "claimed", number)
    lanes.arrived[lane] = lanes.arrived[lane] and lanes.arrived[lane] - number
  end
  if taken[1] then
    if ending.left[request.token] then
      -- A claim of this token has just ended, and its worker may have been another.
      changes.take_out(key.held, ending.workers[request.token] .. "," .. request.token)
      ending.left[request.token] = nil
    end
    changes.set(key.tokens, request.token, request.worker .. "\n" .. concat(ids, "\n"))
    changes.set(key.tokens, request.token .. "#", #ids)
    changes.put(key.held, request.worker .. "," .. request.token)
  end
  return taken
end

-- Reap what ran out, promote what came due, and take what is first; then save everything. Returns what was taken, as
-- JSON.
function taking.claim(request)
  local taken = ending.held_by(request.token)
  if not taken[1] then
    base.insist()
    if request.is_to_reap then
      reap()
    end
    lanes.write()
    local is_wanted = lines.wanting(request.queues, request.types)
    lines.promote(is_wanted, SWEEP)
    local open = lines.open(request.queues, request.types, is_wanted)
    local places, emptied = lines.first_of(key.due, open, request.limit)
    taken = take(places, request)
    for _, lane in ipairs(emptied) do
      call("SREM", key.open, lane)
    end
  end
  changes.save()
  waking.wake()
  return showing.as_json(taken)
end
