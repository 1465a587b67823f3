-- Register waiters, and wake them.
--
-- A waiter is in `waiters` once for every queue and type that it waits for, with `*` for any:
-- `"mail",*|channel#number`. `waiting` maps a waiter to its entries in `waiters`, and `waits` to the time when its
-- registration expires. A wake-up is one message on the waiter's channel, and ends the registration.
--
-- parts: lanes
-- keys: waiters waiting waits

local MOST_CLEARED = 1000 -- entries of dead waiters per script; waiters that get no wake-up poll

local waiters = { cleared = 0 }

-- Deregister a waiter; return the number of its entries.
function waiters.deregister(waiter)
  local entries, members = call("HGET", key.waiting, waiter), {}
  if entries then
    for entry in string.gmatch(entries, "[^\n]+") do
      members[#members + 1] = entry
    end
    base.call_with("ZREM", key.waiters, members)
    call("HDEL", key.waiting, waiter)
    call("ZREM", key.waits, waiter)
  end
  return #members
end

-- Wake one waiter for a queue and type; return whether there was one. If a waiter is dead, wake the next one.
local function wake_one(queue, type)
  local start = queue .. "," .. type .. "|"
  while waiters.cleared < MOST_CLEARED do
    local entry = call("ZRANGEBYLEX", key.waiters, "[" .. start, "(" .. start .. "\255", "LIMIT", 0, 1)[1]
    if not entry then
      return false
    end
    -- Also without an entry in `waiting`: otherwise the loop would not end.
    call("ZREM", key.waiters, entry)
    local waiter = sub(entry, #start + 1)
    local channel, group = match(waiter, "^(.*)#(.*)$")
    local number = waiters.deregister(waiter)
    -- An error is ignored: the script must not fail if the user may not publish. Then waiters find the job by polling.
    local receivers = tonumber(redis.pcall("PUBLISH", channel, group))
    if not receivers or receivers > 0 then
      return true
    end
    waiters.cleared = waiters.cleared + 1 + number
  end
  return false
end

-- Wake one waiter for every job that became claimable.
function waiters.wake()
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
