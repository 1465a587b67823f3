-- Enqueue the jobs of the slots of a schedule that are not enqueued yet.
--
-- parts: enqueueing
-- keys: schedules
-- arguments: now, the name of the schedule, the number of queue and type pairs, the pairs, the number of slots, then
--            for each slot, the earliest first, its time, and the id, the fields and the content of its job
-- result: 1, the current time, the time of the last enqueued slot, then the ids of the jobs; or, if a key is taken and
--         the job has on_conflict=raise: -1, the position of the slot, and the id of the job that has the key

local name, names_by_number = base.argument(), base.list()
local last_at = call("HGET", key.schedules, name) or now_text

local entries, positions = {}, {}
for n = 1, tonumber(base.argument()) do
  local slot_at = base.argument()
  local entry = enqueueing.read(names_by_number)
  if slot_at > last_at then
    entries[#entries + 1], positions[#positions + 1] = entry, n
    last_at = slot_at
  end
end

local new, others = enqueueing.plan(entries)
if not new then
  return { -1, positions[others[1]], others[2] }
end
enqueueing.store(new)
call("HSET", key.schedules, name, last_at)

local answer = { 1, now_text, last_at }
for n, entry in ipairs(entries) do
  answer[n + 3] = entry.id
end
for n = 1, #others, 2 do
  answer[others[n] + 3] = others[n + 1]
end
return answer
