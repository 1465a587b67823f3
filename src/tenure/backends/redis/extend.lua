-- Extend the leases of held jobs, and record progress.
--
-- parts: settling
-- arguments: now, the number of extensions, then for each its id, `fence,token,lease`, and progress (empty: unchanged)
-- result: one digit per extension: 0 lost, 1 held, 2 held and a cancel is requested

local extensions, ids, holding = {}, {}, {}
for n = 1, tonumber(base.argument()) do
  ids[n] = base.argument()
  local fence, token, lease = match(base.argument(), "^(%-?%d+),([^,]*),(%d+)$")
  extensions[n] = { fence = fence, token = token, lease = lease, progress = base.argument() }
end

for n, job in ipairs(rows.of(ids)) do
  local extension = extensions[n]
  if not settling.is_holder(job, extension.fence, extension.token) then
    holding[n] = "0"
  else
    job.leased_until = whole(math.max(job.leased_until, now + extension.lease))
    if extension.progress ~= "" then
      job.progress = extension.progress
    end
    changes.put(key.leases, endings.lease_member(job), job.leased_until)
    rows.change(job)
    holding[n] = job.cancel_requested == "1" and "2" or "1"
  end
end

changes.save()
return concat(holding)
