-- Return the live workers.
--
-- parts: registry
-- keys: shown held tokens
-- arguments: now
-- result: the workers as JSON: started_at, beat_at, the fields of the last heartbeat, and the number of held jobs

-- Return how many jobs all the claims of a worker hold.
local function number_held(name)
  local start, fields, number = name .. ",", {}, 0
  for n, member in ipairs(call("ZRANGEBYLEX", key.held, "[" .. start, "(" .. start .. "\255")) do
    fields[n] = sub(member, #start + 1) .. "#"
  end
  for _, held in ipairs(base.values_of(key.tokens, fields)) do
    number = number + held
  end
  return number
end

local texts = {}
for n, name in ipairs(call("ZRANGEBYSCORE", key.shown, "(" .. now_text, "+inf")) do
  local known = registry.find(name)
  texts[n] = "[" .. concat({ known.started_at, known.beat_at, known.heartbeat, number_held(name) }, ",") .. "]"
end
return "[" .. concat(texts, ",") .. "]"
