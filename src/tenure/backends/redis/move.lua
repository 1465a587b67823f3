-- Move jobs by an operator's hand, each only from the states that allow it.
--
-- parts: ending waking
-- arguments: now, the move, what the history says, the number of ids, these
-- result: for each its state, `-` if there is no such job; then a digit: 0 if it moved, else why it did not, which is 1
--         for an unknown job, 2 for its state, 3 for its key, 4 if it was asked before

local move, note, ids, answer = base.argument(), base.argument(), base.list(), {}
local is_taken = {} -- keys, in this script
rows.of(ids)

local function retried(job)
  if job.state ~= STATE.failed and job.state ~= STATE.cancelled then
    return "2"
  end
  if job.key ~= "null" then
    local field = ending.key_of(job)
    if is_taken[field] or call("HEXISTS", key.keys, field) == 1 then
      return "3"
    end
    is_taken[field] = true
    changes.set(key.keys, field, job.id)
  end
  changes.take_out(key.finished, ending.place_among_finished(job))
  changes.take_out(key.stopped, job.id)
  tally.add(job.lane, job.state, -1)
  job.state, job.run_at, job.attempts, job.crashes = STATE.queued, present, "0", "0"
  job.progress, job.finished_at = "null", "null"
  lanes.join(job)
  return "0"
end

local function cancelled(job)
  if job.state ~= STATE.queued and job.state ~= STATE.running then
    return "2"
  end
  if job.is_asked == "1" then
    return "4"
  end
  if job.state == STATE.running then
    job.is_asked = "1"
  else
    lanes.leave(job)
    ending.finish(job, STATE.cancelled)
  end
  return "0"
end

for n, id in ipairs(ids) do
  local job = rows.by_id[id]
  if not job then
    answer[n] = "-1"
  else
    local refusal = move == "retry" and retried(job) or move == "cancel" and cancelled(job)
    if refusal == "0" then
      ending.remember(job, "operator", note, false)
      rows.change(job)
      tally.add(job.lane, "operator", 1)
    end
    answer[n] = job.state .. refusal
  end
end

changes.save()
waking.wake()
return concat(answer)
