-- Record a worker's heartbeat.
--
-- parts: registry
-- keys: shown
-- arguments: now, worker, ttl (0 deregisters the worker), the fields of the heartbeat as JSON without brackets

local MOST_SWEPT = 100

local name, ttl, fields = base.argument(), tonumber(base.argument()), base.argument()

local silent = call("ZRANGEBYSCORE", key.shown, "-inf", whole(now - EVIDENCE_KEPT), "LIMIT", 0, MOST_SWEPT)
base.call_with("HDEL", key.workers, silent)
base.call_with("ZREM", key.shown, silent)

if ttl == 0 then
  call("HDEL", key.workers, name)
  call("ZREM", key.shown, name)
  return
end

local known = registry.find(name)
local is_shown = known and known.shown_until > now
local started_at, shown_until = is_shown and known.started_at or now_text, whole(now + ttl)
base.allow_oom_writes()
call("HSET", key.workers, name, concat({ shown_until, started_at, now_text, fields }, ","))
call("ZADD", key.shown, shown_until, name)
