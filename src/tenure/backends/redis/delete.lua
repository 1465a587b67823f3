-- Delete jobs by id; only finished jobs.
--
-- parts: deleting
-- arguments: now, the number of ids, the ids
-- result: two characters per id: the state before (`-` for an unknown job), and 1 if the job is deleted, else 0

local ids, answer = base.list(), {}
rows.of(ids)
for n, id in ipairs(ids) do
  local job = rows.by_id[id]
  if not job then
    answer[n] = "-0"
  elseif job.state == STATE.queued or job.state == STATE.running then
    answer[n] = job.state .. "0"
  else
    deleting.delete(job)
    answer[n] = job.state .. "1"
  end
end

changes.save()
return concat(answer)
