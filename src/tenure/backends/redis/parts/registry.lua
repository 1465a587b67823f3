-- What is known of a worker: until when it is shown, since when it is there, its last sign of life, and what it said.
--
-- parts: base
-- keys: workers

local EVIDENCE_KEPT = 86400000000

local registry = { known = {} }

-- Return what is known of a worker, shown or silent; false if nothing is.
function registry.find(name)
  if registry.known[name] == nil then
    registry.known[name] = false
    local shown_until, started_at, beat_at, said =
      match(call("HGET", key.workers, name) or "", "^(%d+),(%d+),(%d+),(.*)$")
    if shown_until and tonumber(shown_until) > now - EVIDENCE_KEPT then
      registry.known[name] =
        { shown_until = tonumber(shown_until), started_at = started_at, beat_at = beat_at, said = said }
    end
  end
  return registry.known[name]
end
