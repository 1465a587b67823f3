-- Count jobs by lane and state, except queued jobs, which are counted in their sorted sets; and count events by minute
-- and queue.
--
-- parts: lanes
-- keys: numbers counts minutes

local counts = { by_lane = {} }

-- Add to the number of jobs in a state, or to the count of an event.
function counts.add(lane, what, number)
  local sums = counts.by_lane[lane]
  if not sums then
    sums = {}
    counts.by_lane[lane] = sums
  end
  sums[what] = (sums[what] or 0) + number
end

local function drop_old_minutes(most)
  local yesterday = base.minute_of(now - 86400000000)
  local old = call("ZRANGEBYLEX", key.minutes, "-", "(" .. yesterday, "LIMIT", 0, most)
  base.call_with("HDEL", key.counts, old)
  base.call_with("ZREM", key.minutes, old)
  -- The counts of an unused store expire.
  call("EXPIRE", key.counts, 2 * 86400)
  call("EXPIRE", key.minutes, 2 * 86400)
end

changes.finally[#changes.finally + 1] = function()
  local minute, new = base.minute_of(now), 0
  for lane, sums in pairs(counts.by_lane) do
    for what, number in pairs(sums) do
      if match(what, "^%d$") then
        if number ~= 0 then
          call("HINCRBY", key.numbers, lane .. what, number)
        end
      else
        local field = minute .. "," .. lanes.names_of(lane) .. "," .. what
        if call("HINCRBY", key.counts, field, number) == number then
          call("ZADD", key.minutes, 0, field)
          new = new + 1
        end
      end
    end
  end
  if new > 0 then
    -- Delete more than were added, so that old counts do not accumulate.
    drop_old_minutes(2 * new)
  end
end
