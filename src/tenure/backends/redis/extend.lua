-- Prolong leases that are held, and note progress.
--
-- parts: settling
-- arguments: now, number, then of each extension its id, `fence,token,lease`, and its progress, empty to keep the old
-- result: a digit for each: 0 if it is lost, 1 if it is held, 2 if it is held and was asked to cancel

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
    changes.put(key.leases, ending.place_among_leases(job), job.leased_until)
    rows.change(job)
    holding[n] = job.is_asked == "1" and "2" or "1"
  end
end

changes.save()
return concat(holding)
