-- Enqueue the jobs of those slots of a schedule that nobody has given out.
--
-- parts: arriving
-- keys: schedules
-- arguments: now, the name of the schedule, the number of pairs of a queue and a type, these, the number of slots, then
--            of each, the earliest first, its moment, and the id of its job, what a store has to know of it, and its
--            content
-- result: 1, the present moment, the last slot given out, then the ids of the jobs; or, if one is refused, -1, where it
--         stands among the slots, and the id of the job that has its key

local name, names_by_number = base.argument(), base.list()
local last_at = call("HGET", key.schedules, name) or present

local entries, positions = {}, {}
for n = 1, tonumber(base.argument()) do
  local slot_at = base.argument()
  local entry = arriving.read(names_by_number)
  if slot_at > last_at then
    entries[#entries + 1], positions[#positions + 1] = entry, n
    last_at = slot_at
  end
end

local new, others = arriving.planned(entries)
if not new then
  return { -1, positions[others[1]], others[2] }
end
arriving.store(new)
call("HSET", key.schedules, name, last_at)

local answer = { 1, present, last_at }
for n, entry in ipairs(entries) do
  answer[n + 3] = entry.id
end
for n = 1, #others, 2 do
  answer[others[n] + 3] = others[n + 1]
end
return answer
