-- Settle claims. A settlement is three values: the id, `fence,token,outcome,state,attempts,delay,result_dropped`, and
-- the error or the result.
--
-- parts: endings
-- keys: results

local settling = {}

-- Read settlements, and load their jobs.
function settling.read()
  local settlements, ids = base.list(), {}
  for at = 1, #settlements, 3 do
    ids[#ids + 1] = settlements[at]
  end
  rows.of(ids)
  return settlements
end

function settling.is_holder(job, fence, token)
  return job and job.state == STATE.running and job.fence == fence and job.token == token
end

-- Return whether the same settlement landed before.
local function has_landed(job, fence, token, outcome)
  if outcome == "completed" then
    return job.state == STATE.completed and job.fence == fence and job.token == token
  end
  local start = '["' .. outcome .. '",' .. fence .. "," .. token .. ","
  for number = job.next_line - 1, job.first_line, -1 do
    local field = number .. ":" .. job.id
    local line = endings.lines[field] or call("HGET", key.history, field)
    if sub(line, 1, #start) == start then
      return true
    end
    -- Fences only grow: older lines belong to earlier claims.
    if tonumber(match(line, ",(%d+)")) < tonumber(fence) then
      break
    end
  end
  return false
end

-- Settle a claim. Return whether the settlement landed, now or before.
local function settle(job, fields, text)
  if not job then
    return false
  end
  local fence, token, outcome, state, attempts, delay, result_dropped =
    match(fields, "^(%-?%d+),([^,]*),(%a+),(%d),(%-?%d+),(%d*),(%d)$")
  if not settling.is_holder(job, fence, token) then
    if has_landed(job, fence, token, outcome) then
      return true
    end
    counts.add(job.lane, "refused", 1)
    return false
  end
  if job.cancel_requested == "1" and state ~= STATE.completed then
    state = STATE.cancelled
  end
  if attempts ~= "0" then
    job.attempts = whole(job.attempts + attempts)
  end
  job.result_dropped = result_dropped
  if delay ~= "" and state == STATE.queued then
    job.run_at = whole(now + delay)
  end
  if state == STATE.completed and text ~= "null" then
    changes.set(key.results, job.id, text)
  end
  endings.end_claim(job, outcome, state, text)
  return true
end

-- Settle in order. Return one digit per settlement: 1 landed, 0 lost.
function settling.settle_all(settlements)
  local landed = {}
  for at = 1, #settlements, 3 do
    local job = rows.by_id[settlements[at]]
    landed[#landed + 1] = settle(job, settlements[at + 1], settlements[at + 2]) and "1" or "0"
  end
  return concat(landed)
end
