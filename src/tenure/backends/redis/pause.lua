-- Pause queues: claims skip their jobs.
--
-- parts: base
-- keys: paused
-- arguments: now, the number of queues, the queues

base.allow_oom_writes()
base.call_with("SADD", key.paused, base.list())
