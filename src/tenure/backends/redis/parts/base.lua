-- The start of every script: read arguments, set the current time, and compare the layout version.
--
-- A timestamp is a number of 16 digits: microseconds since 1970, plus 10^15. A lane has 10 digits, a sequence number
-- 14, a rank 5. So text order equals numeric order. Names are JSON strings without a comma: `"mail"`.
--
-- The functions of a part are in a table with the name of the part. With local functions, a script would spend more
-- time on creating closures than on its work: Lua searches each local that a function uses among all open upvalues.
--
-- keys: store

local call, concat, match, sub = redis.call, table.concat, string.match, string.sub

local LAYOUT = "1"
local EPOCH = 1000000000000000
local MOST_VALUES = 4000 -- per command; more values overflow the Lua stack
local STATE = { queued = "0", running = "1", completed = "2", failed = "3", cancelled = "4" }

local base = { position = 0 }

function base.argument()
  base.position = base.position + 1
  return ARGV[base.position]
end

-- Read a list: the length, then the values.
function base.list()
  local found, before = {}, base.position + 1
  local number = tonumber(ARGV[before])
  for n = 1, number do
    found[n] = ARGV[before + n]
  end
  base.position = before + number
  return found
end

-- Read names as a set; nil means all names.
function base.names()
  local number = tonumber(base.argument())
  if number < 0 then
    return nil
  end
  local found = {}
  for _ = 1, number do
    found[base.argument()] = true
  end
  return found
end

-- Format a whole number with all its digits; `tostring` would use an exponent.
local function whole(number)
  return string.format("%.0f", number)
end

-- Return the minute of a timestamp.
function base.minute_of(moment)
  return whole(moment - (moment - EPOCH) % 60000000)
end

-- Allow the following writes on a server that is out of memory, so that jobs can still be claimed and settled. Such a
-- server rejects a script only if the first write of the script needs memory. This write needs no memory and changes
-- nothing.
function base.allow_oom_writes()
  call("HDEL", key.store, "")
end

-- Call a write command on a key with any number of values, in batches.
function base.call_with(command, name, values)
  for first = 1, #values, MOST_VALUES do
    call(command, name, unpack(values, first, math.min(first + MOST_VALUES - 1, #values)))
  end
end

-- Return the values of the fields of a hash; false for a missing field.
function base.values_of(hash, fields)
  if #fields <= MOST_VALUES then
    return fields[1] and call("HMGET", hash, unpack(fields)) or {}
  end
  local values = {}
  for first = 1, #fields, MOST_VALUES do
    for _, value in ipairs(call("HMGET", hash, unpack(fields, first, math.min(first + MOST_VALUES - 1, #fields)))) do
      values[#values + 1] = value
    end
  end
  return values
end

local layout = call("HGET", key.store, "layout")
if layout and layout ~= LAYOUT then
  return redis.error_reply("TENURELAYOUT " .. layout)
end

local now = base.argument()
if now == "" then
  local time = call("TIME")
  now = time[1] * 1000000 + time[2] + EPOCH
else
  now = tonumber(now)
end
local now_text = whole(now)
