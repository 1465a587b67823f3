-- Reap claims: the lease expired, or the worker was reported dead.
--
-- parts: endings registry

local expiry = {}

-- Format a timestamp as ISO 8601.
local function readable(timestamp)
  local micros = timestamp - EPOCH
  local seconds = math.floor(micros / 1000000)
  local rest, of_day = micros - seconds * 1000000, seconds % 86400
  -- Count in years that begin in March, so that a leap day is the last day, and in eras of 400 years.
  local days = math.floor(seconds / 86400) + 719468
  local era = math.floor(days / 146097)
  local of_era = days - era * 146097
  local year = math.floor(
    (of_era - math.floor(of_era / 1460) + math.floor(of_era / 36524) - math.floor(of_era / 146096)) / 365
  )
  local of_year = of_era - (365 * year + math.floor(year / 4) - math.floor(year / 100))
  local month = math.floor((5 * of_year + 2) / 153)
  local day = of_year - math.floor((153 * month + 2) / 5) + 1
  month = month < 10 and month + 3 or month - 9
  return string.format(
    "%04d-%02d-%02dT%02d:%02d:%02d%s+00:00",
    year + era * 400 + (month <= 2 and 1 or 0),
    month,
    day,
    math.floor(of_day / 3600),
    math.floor(of_day / 60) % 60,
    of_day % 60,
    rest > 0 and string.format(".%06d", rest) or ""
  )
end

-- Return the history text of a reaped claim. `core/transitions.py` has the same text.
local function note_of(job, is_reported_dead)
  local worker = "'" .. sub(job.worker, 2, -2) .. "'"
  local note = is_reported_dead and "worker " .. worker .. " was reported dead; it"
    or "lease expired at " .. readable(job.leased_until) .. "; worker " .. worker
  note = note .. " claimed the job at " .. readable(job.started_at)
  local known = registry.find(job.worker)
  if known then
    local host, pid = match(known.heartbeat, '^"[^,]*","([^,]*)",(%d+),')
    note = note .. "; last heartbeat at " .. readable(known.beat_at)
    note = note .. " (host '" .. host .. "', pid " .. pid .. ")"
  end
  return '"' .. note .. '"'
end

-- End the claim of a holder that is presumed dead.
function expiry.expire(job, is_reported_dead)
  local note = note_of(job, is_reported_dead)
  job.crashes = whole(job.crashes + 1)
  local has_spent_attempts = job.max_attempts ~= "null" and tonumber(job.attempts) >= tonumber(job.max_attempts)
  local state = STATE.queued
  if job.cancel_requested == "1" then
    state = STATE.cancelled
  elseif has_spent_attempts or tonumber(job.crashes) >= tonumber(job.max_crashes) then
    state = STATE.failed
  end
  endings.end_claim(job, "expired", state, note)
end

-- Return the running jobs with expired leases, the longest expired first.
function expiry.expired(limit)
  local members, ids = call("ZRANGEBYSCORE", key.leases, "-inf", now_text, "LIMIT", 0, limit), {}
  for n, member in ipairs(members) do
    ids[n] = sub(member, 15)
  end
  return rows.of(ids)
end
