-- Return when a claim may find a job; if not now, register the waiter for a wake-up.
--
-- parts: waiters lane_merge
-- keys: leases
-- arguments: now, waiter (`channel#number`), how many microseconds the registration lasts, queues, types
-- result: microseconds until a claim may find a job, empty if unknown

local MOST_SWEPT = 10
local KEPT = 60 -- seconds that the keys stay after the last registration

local waiter, ttl, queues, types = base.argument(), tonumber(base.argument()), base.names(), base.names()
local is_wanted = lane_merge.lane_filter(queues, types)

local function has_due()
  for _, lane in ipairs(lane_merge.open(queues, types, is_wanted)) do
    if lanes.first(key.due, lane) then
      return true
    end
  end
  return false
end

-- Return when the next scheduled job comes due or the next lease expires; nil if neither is within the registration.
local function next_at()
  local latest = whole(now + ttl)
  local earliest_at = tonumber(call("ZRANGEBYSCORE", key.leases, "-inf", latest, "WITHSCORES", "LIMIT", 0, 1)[2])
  for _, lane in ipairs(lane_merge.filter(call("ZRANGEBYSCORE", key.upcoming, "-inf", latest), is_wanted)) do
    local run_at = lane_merge.first_scheduled_at(lane)
    earliest_at = run_at and math.min(run_at, earliest_at or run_at) or earliest_at
  end
  return earliest_at
end

local function each_name(wanted, action)
  if not wanted then
    action("*")
    return
  end
  for name in pairs(wanted) do
    action(name)
  end
end

local function register()
  local time, entries, members = call("TIME"), {}, {}
  local until_at = time[1] * 1000000 + time[2] + ttl
  for _, expired in ipairs(call("ZRANGEBYSCORE", key.waits, "-inf", whole(until_at - ttl), "LIMIT", 0, MOST_SWEPT)) do
    waiters.deregister(expired)
  end
  each_name(queues, function(queue)
    each_name(types, function(type)
      local entry = queue .. "," .. type .. "|" .. waiter
      entries[#entries + 1] = entry
      members[#members + 1], members[#members + 2] = 0, entry
    end)
  end)
  base.call_with("ZADD", key.waiters, members)
  call("HSET", key.waiting, waiter, concat(entries, "\n"))
  call("ZADD", key.waits, whole(until_at), waiter)
  for _, name in ipairs({ key.waiters, key.waiting, key.waits }) do
    call("EXPIRE", name, KEPT)
  end
end

base.allow_oom_writes()
waiters.deregister(waiter)
if has_due() then
  return "0"
end
local at = next_at()
if at and at <= now then
  return "0"
end
register()
return at and whole(at - now) or ""
