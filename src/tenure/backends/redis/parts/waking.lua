-- Those who wait for jobs, and who of them is woken.
--
-- Who waits stands in `waiters` once for each queue and type that it waits for, `*` being any:
-- `"mail",*|channel#watch`. `waiting` has what it stands there with, and `waits` until when. To be woken is to be told
-- on its channel, once.
--
-- parts: lanes
-- keys: waiters waiting waits

local MOST_CLEARED = 1000 -- places of the dead, by one script; who is not called in their stead looks by itself

local waking = { cleared = 0 }

-- Let somebody wait no more; return in how many places it stood.
function waking.dismiss(waiter)
  local places, members = call("HGET", key.waiting, waiter), {}
  if places then
    for place in string.gmatch(places, "[^\n]+") do
      members[#members + 1] = place
    end
    base.call_with("ZREM", key.waiters, members)
    call("HDEL", key.waiting, waiter)
    call("ZREM", key.waits, waiter)
  end
  return #members
end

-- Wake one who waits for these; tell whether there was one. Who is dead hears nothing: then it is the next one's turn.
local function wake_one(queue, type)
  local start = queue .. "," .. type .. "|"
  while waking.cleared < MOST_CLEARED do
    local place = call("ZRANGEBYLEX", key.waiters, "[" .. start, "(" .. start .. "\255", "LIMIT", 0, 1)[1]
    if not place then
      return false
    end
    -- By itself too: were it to stay, this would not end.
    call("ZREM", key.waiters, place)
    local waiter = sub(place, #start + 1)
    local channel, watch = match(waiter, "^(.*)#(.*)$")
    local number = waking.dismiss(waiter)
    -- What was done stands, even if this user may not publish: then it is found by looking.
    local heard_by = tonumber(redis.pcall("PUBLISH", channel, watch))
    if not heard_by or heard_by > 0 then
      return true
    end
    waking.cleared = waking.cleared + 1 + number
  end
  return false
end

-- Wake one for each job that arrived.
function waking.wake()
  if not next(lanes.arrived) or call("EXISTS", key.waiters) == 0 then
    return
  end
  for lane, number in pairs(lanes.arrived) do
    local queue, type = lanes.names_of(lane)
    for _ = 1, number do
      if not (wake_one(queue, type) or wake_one(queue, "*") or wake_one("*", type) or wake_one("*", "*")) then
        break
      end
    end
  end
end
