-- Read several lanes in one merged order.
--
-- parts: lanes
-- keys: paused

local lane_merge = {}

-- Return a predicate: whether a claim for the queues and types may take jobs of a lane.
function lane_merge.lane_filter(queues, types)
  local is_paused = {}
  for _, queue in ipairs(call("SMEMBERS", key.paused)) do
    is_paused[queue] = true
  end
  return function(lane)
    local queue, type = lanes.names_of(lane)
    return not is_paused[queue] and (not queues or queues[queue]) and (not types or types[type])
  end
end

function lane_merge.filter(some, is_wanted)
  local found = {}
  lanes.load_names(some)
  for _, each in ipairs(some) do
    if is_wanted(each) then
      found[#found + 1] = each
    end
  end
  return found
end

-- Return the lanes of the queues and types; nil if there are more than `most` pairs.
local function lanes_of(queues, types, most)
  local names = {}
  for queue in pairs(queues) do
    for type in pairs(types) do
      if #names == most then
        return nil
      end
      names[#names + 1] = queue .. "," .. type
    end
  end
  local found = {}
  for _, lane in ipairs(base.values_of(key.lanes, names)) do
    found[#found + 1] = lane or nil
  end
  return found
end

-- Return the wanted lanes that may have due jobs. Look the lanes up by name if the names are fewer than the open lanes.
function lane_merge.open(queues, types, is_wanted)
  local some = queues and types and lanes_of(queues, types, call("SCARD", key.open))
  return lane_merge.filter(some or call("SMEMBERS", key.open), is_wanted)
end

-- Return the rest of the next member with a prefix, after the prefix; nil at the end. Read few members first, then
-- twice as many on every read.
local function next_order(reading, prefix)
  local some, at = reading.members[prefix], (reading.at[prefix] or 0) + 1
  if not some or (at > #some and not reading.is_whole[prefix]) then
    local from, to = lanes.range(prefix, reading.bound)
    local number = some and 2 * #some or reading.number
    some = call("ZRANGEBYLEX", reading.sorted_set, some and "(" .. some[#some] or from, to, "LIMIT", 0, number)
    reading.members[prefix], reading.is_whole[prefix], at = some, #some < number, 1
  end
  reading.at[prefix] = at
  local order = some[at] and sub(some[at], #prefix + 1)
  if order then
    reading.prefix_by_order[order] = prefix
  end
  return order
end

-- Restore the heap order after the first element was replaced.
local function sink(heap)
  local moved, at, number = heap[1], 1, #heap
  while 2 * at <= number do
    local below = 2 * at
    if below < number and heap[below + 1] < heap[below] then
      below = below + 1
    end
    if moved < heap[below] then
      break
    end
    heap[at], at = heap[below], below
  end
  heap[at] = moved
end

-- Merge the members of a sorted set that start with one of the prefixes, sorted by the rest after the prefix. Return
-- the first `limit` members, up to an optional bound, and the prefixes that have no members left.
function lane_merge.first_of(sorted_set, prefixes, limit, bound)
  if #prefixes == 1 then
    local from, to = lanes.range(prefixes[1], bound)
    local some = call("ZRANGEBYLEX", sorted_set, from, to, "LIMIT", 0, limit)
    return some, #some < limit and prefixes or {}
  end
  local reading = { sorted_set = sorted_set, bound = bound, number = math.ceil(limit / math.max(1, #prefixes)) }
  reading.members, reading.at, reading.is_whole, reading.prefix_by_order = {}, {}, {}, {}
  local found, emptied, heap = {}, {}, {}
  for _, prefix in ipairs(prefixes) do
    local order = next_order(reading, prefix)
    local some = order and heap or emptied
    some[#some + 1] = order or prefix
  end
  table.sort(heap)
  while heap[1] do
    local prefix = reading.prefix_by_order[heap[1]]
    found[#found + 1] = prefix .. heap[1]
    if #found == limit then
      break
    end
    local order = next_order(reading, prefix)
    if order then
      heap[1] = order
    else
      emptied[#emptied + 1] = prefix
      heap[1] = heap[#heap]
      heap[#heap] = nil
    end
    if heap[2] then
      sink(heap)
    end
  end
  return found, emptied
end

-- Return when the first scheduled job of a lane comes due, or nil, and correct `upcoming`.
function lane_merge.first_scheduled_at(lane)
  local first = lanes.first(key.scheduled, lane)
  if not first then
    call("ZREM", key.upcoming, lane)
    return nil
  end
  local run_at = sub(first, 11, 26)
  call("ZADD", key.upcoming, run_at, lane)
  return tonumber(run_at)
end

-- Return the wanted lanes whose scheduled jobs may have come due.
function lane_merge.ready(is_wanted)
  return lane_merge.filter(call("ZRANGEBYSCORE", key.upcoming, "-inf", now_text), is_wanted)
end

-- Promote scheduled jobs that came due in the wanted lanes, the oldest first.
function lane_merge.promote(is_wanted, most)
  local ready = lane_merge.ready(is_wanted)
  if not ready[1] then
    return
  end
  for _, member in ipairs((lane_merge.first_of(key.scheduled, ready, most, now_text))) do
    local lane, moment, rank, id = sub(member, 1, 10), sub(member, 11, 40), sub(member, 41, 45), sub(member, 46)
    changes.take_out(key.scheduled, member)
    changes.put(key.due, lane .. rank .. moment .. id)
    lanes.note_due(lane)
  end
  lanes.write()
  for _, lane in ipairs(ready) do
    lane_merge.first_scheduled_at(lane)
  end
end
