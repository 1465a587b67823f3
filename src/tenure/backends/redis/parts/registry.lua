-- The worker registry: `shown_until,started_at,beat_at`, and the fields of the last heartbeat, per worker.
--
-- parts: base
-- keys: workers

local EVIDENCE_KEPT = 86400000000

local registry = { known = {} }

-- Return the registry entry of a worker, live or silent; false if there is none.
function registry.find(name)
  if registry.known[name] == nil then
    registry.known[name] = false
    local shown_until, started_at, beat_at, heartbeat =
      match(call("HGET", key.workers, name) or "", "^(%d+),(%d+),(%d+),(.*)$")
    if shown_until and tonumber(shown_until) > now - EVIDENCE_KEPT then
      registry.known[name] =
        { shown_until = tonumber(shown_until), started_at = started_at, beat_at = beat_at, heartbeat = heartbeat }
    end
  end
  return registry.known[name]
end
