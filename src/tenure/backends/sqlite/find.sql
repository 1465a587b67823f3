-- Find jobs page by page, in enqueue order or the reverse. The comparison with the cursor follows the direction.
-- A page examines at most :scan candidates.

-- name: all
select sequence as candidate
from tenure_jobs
where sequence {beyond} :cursor
order by sequence {order}
limit :scan

-- name: running
-- SQLite has to sort these; running jobs are few.
select sequence as candidate
from tenure_jobs indexed by tenure_leases
where state = 'running' and sequence {beyond} :cursor
order by sequence {order}
limit :scan

-- name: stopped
-- The failed and cancelled jobs.
select sequence as candidate
from tenure_jobs
where state in ('failed', 'cancelled') and sequence {beyond} :cursor
order by sequence {order}
limit :scan

-- name: ids
select sequence as candidate
from tenure_jobs
where id in (select value from json_each(:ids)) and sequence {beyond} :cursor
order by sequence {order}
limit :scan

-- name: page
-- No `order by`: SQLite would read all candidates first. The cross join keeps the order of the candidates.
select {job}
from ({candidates})
cross join tenure_jobs on sequence = candidate
where
  (:states is null or state in (select value from json_each(:states)))
  and (:queues is null or queue in (select value from json_each(:queues)))
  and (:types is null or type in (select value from json_each(:types)))
  and (:key is null or key = :key)
  and (:worker is null or worker = :worker)
  and (:attempts_over is null or attempts > :attempts_over)
  and (:due is null or (state = 'queued' and (run_at <= :now) = :due))
  and (:since is null or coalesce(finished_at, created_at) >= :since)
  and (:error is null or instr((
    select h.error
    from tenure_history h
    where h.job = sequence and h.error is not null and h.outcome <> 'operator'
    order by h.number desc
    limit 1
  ), :error) > 0)
limit :limit

-- name: scanned
-- The number of candidates, and their first and last sequence number.
select count(*), min(candidate), max(candidate)
from ({candidates})
