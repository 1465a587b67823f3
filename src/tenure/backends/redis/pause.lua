-- Let no claim take jobs of these queues.
--
-- parts: base
-- keys: paused
-- arguments: now, the number of queues, these

base.insist()
base.call_with("SADD", key.paused, base.list())
