-- Store all of these jobs, or none.
--
-- parts: arriving
-- arguments: now, the number of pairs of a queue and a type, these, the number of jobs, then of each its id, what a
--            store has to know of it, and its content
-- result: where those stand that were there already, each with the id of its job; or, if one is refused, -1, where it
--         stands, and the id of the job that has its key

local names_by_number, entries = base.list(), {}
for n = 1, tonumber(base.argument()) do
  entries[n] = arriving.read(names_by_number)
end

local new, others = arriving.planned(entries)
if not new then
  return { -1, others[1], others[2] }
end
arriving.store(new)
return others
