-- Take due jobs for a worker.
--
-- parts: taking
-- arguments: now, worker, token, limit, lease, whether it takes back what ran out (1 or 0), queues, types
-- result: the jobs, as JSON

return taking.claim(taking.read())
