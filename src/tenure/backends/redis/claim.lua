-- Claim due jobs for a worker.
--
-- parts: claiming
-- arguments: now, worker, token, limit, lease, whether to reap expired leases (1 or 0), queues, types
-- result: the jobs, as JSON

return claiming.claim(claiming.read())
