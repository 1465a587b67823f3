-- How a claim ends, and how a job finishes.
--
-- parts: rows lanes tally
-- keys: history leases held tokens keys finished stopped
--
-- `tokens` has, by the token of a claim, its worker and the jobs that it took; and by `token#` how many of them it
-- holds. `held` has the claims that hold any, by their workers: `"worker","token"`.

local HISTORY_KEPT = 50

local ending = { left = {}, workers = {}, lines = {} }

function ending.place_among_leases(job)
  return job.sequence .. job.id
end

function ending.place_among_finished(job)
  return job.lane .. job.state .. job.finished_at .. job.sequence .. job.id
end

-- Return where the key of a job is noted while it is live.
function ending.key_of(job)
  return lanes.names_of(job.lane) .. "," .. job.key
end

-- Return the jobs that a claim took and still holds, in the order in which they were claimed.
function ending.held_by(token)
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

-- Add a line to the history of a job, by the holder of its claim or by an operator.
function ending.remember(job, outcome, error, is_by_holder)
  local token, worker, claimed_at = "null", "null", "null"
  if is_by_holder then
    token, worker, claimed_at = job.token, job.worker, job.started_at
  end
  local field = job.following .. ":" .. job.id
  local line = { '["' .. outcome .. '"', job.fence, token, worker, claimed_at, present, error .. "]" }
  ending.lines[field] = concat(line, ",")
  changes.set(key.history, field, ending.lines[field])
  job.following = whole(job.following + 1)
  if job.following - job.first > HISTORY_KEPT then
    changes.unset(key.history, job.first .. ":" .. job.id)
    job.first = whole(job.first + 1)
  end
end

function ending.finish(job, state)
  job.state, job.finished_at = state, present
  changes.put(key.finished, ending.place_among_finished(job))
  if state ~= STATE.completed then
    changes.put(key.stopped, job.id, job.sequence)
  end
  tally.add(job.lane, state, 1)
  if job.key ~= "null" then
    changes.unset(key.keys, ending.key_of(job))
  end
end

-- End a claim so that the job is in this state; the history says how, unless it is completed.
function ending.end_claim(job, outcome, state, error)
  changes.take_out(key.leases, ending.place_among_leases(job))
  ending.left[job.token] = (ending.left[job.token] or 0) + 1
  ending.workers[job.token] = job.worker
  tally.add(job.lane, STATE.running, -1)
  tally.add(job.lane, outcome, 1)
  if outcome ~= "completed" then
    ending.remember(job, outcome, error, true)
    -- A completed job keeps both: its token tells a settlement sent again, its worker who did it.
    job.token, job.worker = "null", "null"
  end
  job.leased_until, job.is_asked = "null", "0"
  if state == STATE.queued then
    job.state = state
    lanes.join(job)
  else
    ending.finish(job, state)
  end
  rows.change(job)
end

changes.finally[#changes.finally + 1] = function()
  for token, number in pairs(ending.left) do
    if call("HINCRBY", key.tokens, token .. "#", -number) == 0 then
      call("HDEL", key.tokens, token, token .. "#")
      call("ZREM", key.held, ending.workers[token] .. "," .. token)
    end
  end
end
