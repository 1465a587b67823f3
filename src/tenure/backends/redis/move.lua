-- Retry or cancel jobs for an operator, if the state of the job allows the move.
--
-- parts: endings waiters
-- arguments: now, the move, the note for the history, the number of ids, the ids
-- result: two characters per id: the state (`-` for an unknown job), and a digit: 0 moved, 1 unknown job, 2 wrong
--         state, 3 key taken, 4 cancel already requested

local move, note, ids, answer = base.argument(), base.argument(), base.list(), {}
local is_taken = {} -- keys taken earlier in this script
rows.of(ids)

local function retry(job)
  if job.state ~= STATE.failed and job.state ~= STATE.cancelled then
    return "2"
  end
  if job.key ~= "null" then
    local field = endings.key_of(job)
    if is_taken[field] or call("HEXISTS", key.keys, field) == 1 then
      return "3"
    end
    is_taken[field] = true
    changes.set(key.keys, field, job.id)
  end
  changes.take_out(key.finished, endings.finished_member(job))
  changes.take_out(key.stopped, job.id)
  counts.add(job.lane, job.state, -1)
  job.state, job.run_at, job.attempts, job.crashes = STATE.queued, now_text, "0", "0"
  job.progress, job.finished_at = "null", "null"
  lanes.join(job)
  return "0"
end

local function cancel(job)
  if job.state ~= STATE.queued and job.state ~= STATE.running then
    return "2"
  end
  if job.cancel_requested == "1" then
    return "4"
  end
  if job.state == STATE.running then
    job.cancel_requested = "1"
  else
    lanes.leave(job)
    endings.finish(job, STATE.cancelled)
  end
  return "0"
end

for n, id in ipairs(ids) do
  local job = rows.by_id[id]
  if not job then
    answer[n] = "-1"
  else
    local refusal = move == "retry" and retry(job) or move == "cancel" and cancel(job)
    if refusal == "0" then
      endings.remember(job, "operator", note, false)
      rows.change(job)
      counts.add(job.lane, "operator", 1)
    end
    answer[n] = job.state .. refusal
  end
end

changes.save()
waiters.wake()
return concat(answer)
