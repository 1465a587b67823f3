-- Settlements, as a list: of each the id, then `fence,token,outcome,state,attempts,delay,is_dropped`, then its error or
-- its result.
--
-- parts: ending
-- keys: results

local settling = {}

-- Read settlements, and the jobs that they are about.
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

-- Tell whether this very settlement landed before.
local function has_landed(job, fence, token, outcome)
  if outcome == "completed" then
    return job.state == STATE.completed and job.fence == fence and job.token == token
  end
  local start = '["' .. outcome .. '",' .. fence .. "," .. token .. ","
  for number = job.following - 1, job.first, -1 do
    local field = number .. ":" .. job.id
    local line = ending.lines[field] or call("HGET", key.history, field)
    if sub(line, 1, #start) == start then
      return true
    end
    -- Fences only rise: what stands before is of earlier claims.
    if tonumber(match(line, ",(%d+)")) < tonumber(fence) then
      break
    end
  end
  return false
end

-- End a claim as its holder says; tell whether that landed, now or before.
local function settle(job, said, text)
  if not job then
    return false
  end
  local fence, token, outcome, state, attempts, delay, is_dropped =
    match(said, "^(%-?%d+),([^,]*),(%a+),(%d),(%-?%d+),(%d*),(%d)$")
  if not settling.is_holder(job, fence, token) then
    if has_landed(job, fence, token, outcome) then
      return true
    end
    tally.add(job.lane, "refused", 1)
    return false
  end
  if job.is_asked == "1" and state ~= STATE.completed then
    state = STATE.cancelled
  end
  if attempts ~= "0" then
    job.attempts = whole(job.attempts + attempts)
  end
  job.is_dropped = is_dropped
  if delay ~= "" and state == STATE.queued then
    job.run_at = whole(now + delay)
  end
  if state == STATE.completed and text ~= "null" then
    changes.set(key.results, job.id, text)
  end
  ending.end_claim(job, outcome, state, text)
  return true
end

-- Do all of these in turn; return for each 1 if it landed, 0 if it is lost.
function settling.settle_all(settlements)
  local landed = {}
  for at = 1, #settlements, 3 do
    local job = rows.by_id[settlements[at]]
    landed[#landed + 1] = settle(job, settlements[at + 1], settlements[at + 2]) and "1" or "0"
  end
  return concat(landed)
end
