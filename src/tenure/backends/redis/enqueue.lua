-- Store all the jobs, or none.
--
-- parts: enqueueing
-- arguments: now, the number of queue and type pairs, the pairs, the number of jobs, then for each job its id, the
--            fields that scripts read, and the content
-- result: for each job that existed before, its position and the id of the existing job; or, if a key is taken and the
--         job has on_conflict=raise: -1, the position, and the id of the job that has the key

local names_by_number, entries = base.list(), {}
for n = 1, tonumber(base.argument()) do
  entries[n] = enqueueing.read(names_by_number)
end

local new, others = enqueueing.plan(entries)
if not new then
  return { -1, others[1], others[2] }
end
enqueueing.store(new)
return others
