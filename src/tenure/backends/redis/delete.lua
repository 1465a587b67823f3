-- Forget these jobs; only finished ones.
--
-- parts: forgetting
-- arguments: now, the number of ids, these
-- result: for each the state that it was in: empty if there is no such job; then 1 if it is forgotten, else 0

local ids, answer = base.list(), {}
rows.of(ids)
for n, id in ipairs(ids) do
  local job = rows.by_id[id]
  if not job then
    answer[n] = "-0"
  elseif job.state == STATE.queued or job.state == STATE.running then
    answer[n] = job.state .. "0"
  else
    forgetting.forget(job)
    answer[n] = job.state .. "1"
  end
end

changes.save()
return concat(answer)
