-- End claims and finish jobs.
--
-- parts: rows lanes counts
-- keys: history leases held tokens keys finished stopped
--
-- `tokens` maps the token of a claim to its worker and the ids of its jobs, and `token#` to the number of jobs that the
-- claim still holds. `held` contains the claims that hold jobs, sorted by worker: `"worker","token"`.

local HISTORY_KEPT = 50

-- ended_by_token: how many jobs of a claim this script ended; lines: the history lines that it added, by field.
local endings = { ended_by_token = {}, worker_by_token = {}, lines = {} }

function endings.lease_member(job)
  return job.sequence .. job.id
end

function endings.finished_member(job)
  return job.lane .. job.state .. job.finished_at .. job.sequence .. job.id
end

-- Return the field of `keys` that holds the key of a live job.
function endings.key_of(job)
  return lanes.names_of(job.lane) .. "," .. job.key
end

-- Return the jobs that a claim still holds, in claim order.
function endings.held_by(token)
  local ids, found = {}, {}
  for id in string.gmatch(call("HGET", key.tokens, token) or "", "\n([^\n]+)") do
    ids[#ids + 1] = id
  end
  for _, job in ipairs(rows.of(ids)) do
    if job and job.state == STATE.running and job.token == token then
      found[#found + 1] = job
    end
  end
  return found
end

-- Append a line to the history of a job, for the holder of the claim or for an operator.
function endings.remember(job, outcome, error, is_by_holder)
  local token, worker, claimed_at = "null", "null", "null"
  if is_by_holder then
    token, worker, claimed_at = job.token, job.worker, job.started_at
  end
  local field = job.next_line .. ":" .. job.id
  local line = { '["' .. outcome .. '"', job.fence, token, worker, claimed_at, now_text, error .. "]" }
  endings.lines[field] = concat(line, ",")
  changes.set(key.history, field, endings.lines[field])
  job.next_line = whole(job.next_line + 1)
  if job.next_line - job.first_line > HISTORY_KEPT then
    changes.unset(key.history, job.first_line .. ":" .. job.id)
    job.first_line = whole(job.first_line + 1)
  end
end

function endings.finish(job, state)
  job.state, job.finished_at = state, now_text
  changes.put(key.finished, endings.finished_member(job))
  if state ~= STATE.completed then
    changes.put(key.stopped, job.id, job.sequence)
  end
  counts.add(job.lane, state, 1)
  if job.key ~= "null" then
    changes.unset(key.keys, endings.key_of(job))
  end
end

-- End a claim and set the state of the job. Every outcome except completed adds a line to the history.
function endings.end_claim(job, outcome, state, error)
  changes.take_out(key.leases, endings.lease_member(job))
  endings.ended_by_token[job.token] = (endings.ended_by_token[job.token] or 0) + 1
  endings.worker_by_token[job.token] = job.worker
  counts.add(job.lane, STATE.running, -1)
  counts.add(job.lane, outcome, 1)
  if outcome ~= "completed" then
    endings.remember(job, outcome, error, true)
    -- A completed job keeps both: the token identifies a repeated settlement, the worker is shown to users.
    job.token, job.worker = "null", "null"
  end
  job.leased_until, job.cancel_requested = "null", "0"
  if state == STATE.queued then
    job.state = state
    lanes.join(job)
  else
    endings.finish(job, state)
  end
  rows.change(job)
end

changes.finally[#changes.finally + 1] = function()
  for token, number in pairs(endings.ended_by_token) do
    if call("HINCRBY", key.tokens, token .. "#", -number) == 0 then
      call("HDEL", key.tokens, token, token .. "#")
      call("ZREM", key.held, endings.worker_by_token[token] .. "," .. token)
    end
  end
end
