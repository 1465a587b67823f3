-- Count the jobs by lane and state.
--
-- parts: lanes
-- keys: numbers paused
-- arguments: now, how many priorities to read, over all lanes, to find the oldest due jobs
-- result: the lanes as JSON: queue, type, due, scheduled, running, completed, failed, cancelled, and the time at which
--         the oldest due job came due; then the paused queues as JSON

local remaining = tonumber(base.argument())

-- Return when the oldest due job of a lane came due. The first job of a priority is the oldest of that priority.
local function oldest_at(lane)
  local oldest, from = nil, "[" .. lane
  while remaining > 0 do
    remaining = remaining - 1
    local first = call("ZRANGEBYLEX", key.due, from, "(" .. lane .. BEYOND, "LIMIT", 0, 1)[1]
    if not first then
      break
    end
    local run_at = sub(first, 16, 31)
    oldest = (not oldest or run_at < oldest) and run_at or oldest
    from = "(" .. sub(first, 1, 15) .. BEYOND
  end
  local first_scheduled = lanes.first(key.scheduled, lane, now_text)
  if first_scheduled and (not oldest or sub(first_scheduled, 11, 26) < oldest) then
    oldest = sub(first_scheduled, 11, 26)
  end
  return oldest or "null"
end

local function row_of_lane(lane, pair)
  local all_scheduled = lanes.number(key.scheduled, lane)
  local came_due = lanes.number(key.scheduled, lane, now_text)
  local row = { pair, lanes.number(key.due, lane) + came_due, all_scheduled - came_due }
  for _, number in ipairs(call("HMGET", key.numbers, lane .. "1", lane .. "2", lane .. "3", lane .. "4")) do
    row[#row + 1] = number or "0"
  end
  row[#row + 1] = oldest_at(lane)
  return "[" .. concat(row, ",") .. "]"
end

local texts, fields = {}, call("HGETALL", key.lanes)
for n = 1, #fields, 2 do
  if match(fields[n], "^%d") then
    texts[#texts + 1] = row_of_lane(fields[n], fields[n + 1])
  end
end
return { "[" .. concat(texts, ",") .. "]", "[" .. concat(call("SMEMBERS", key.paused), ",") .. "]" }
