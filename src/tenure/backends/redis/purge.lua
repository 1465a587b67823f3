-- Delete finished jobs older than an age, the oldest first.
--
-- parts: deleting lane_merge
-- arguments: now, older_than, limit, the number of states, the states, queues
-- result: the number of deleted jobs

local older_than, limit, states, queues = base.argument(), tonumber(base.argument()), base.list(), base.names()
-- Not before 1970: an earlier timestamp has fewer digits and sorts wrongly as text.
local before = whole(math.max(now - older_than, EPOCH))

local all, prefixes, fields = {}, {}, call("HGETALL", key.lanes)
for n = 1, #fields, 2 do
  local lane = fields[n]
  if match(lane, "^%d") and (not queues or queues[match(fields[n + 1], "^[^,]*")]) then
    for _, state in ipairs(states) do
      all[#all + 1] = lane .. state
    end
  end
end
for n, number in ipairs(base.values_of(key.numbers, all)) do
  if number and number ~= "0" then
    prefixes[#prefixes + 1] = all[n]
  end
end

local ids = {}
for n, member in ipairs((lane_merge.first_of(key.finished, prefixes, limit, before))) do
  ids[n] = sub(member, 42)
end
for _, job in ipairs(rows.of(ids)) do
  deleting.delete(job)
end

changes.save()
return #ids
