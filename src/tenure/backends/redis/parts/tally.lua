-- The numbers of jobs by lane and state, for the states that no line counts; and what happened in each minute, by
-- queue.
--
-- parts: lanes
-- keys: numbers counts minutes

local tally = { by_lane = {} }

-- Add to the number of jobs in a state, or to how often something happened.
function tally.add(lane, what, number)
  local sums = tally.by_lane[lane]
  if not sums then
    sums = {}
    tally.by_lane[lane] = sums
  end
  sums[what] = (sums[what] or 0) + number
end

local function drop_old_minutes(most)
  local yesterday = base.minute_of(now - 86400000000)
  local old = call("ZRANGEBYLEX", key.minutes, "-", "(" .. yesterday, "LIMIT", 0, most)
  base.call_with("HDEL", key.counts, old)
  base.call_with("ZREM", key.minutes, old)
  -- A store that nobody uses any more keeps no counts.
  call("EXPIRE", key.counts, 2 * 86400)
  call("EXPIRE", key.minutes, 2 * 86400)
end

changes.finally[#changes.finally + 1] = function()
  local minute, new = base.minute_of(now), 0
  for lane, sums in pairs(tally.by_lane) do
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
    -- More than come, so that they cannot pile up.
    drop_old_minutes(2 * new)
  end
end
