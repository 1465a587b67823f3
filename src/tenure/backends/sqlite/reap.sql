-- Find the claims to reap; `settle.sql` ends them.

-- name: expired
-- The claims with an expired lease, the longest expired first.
select
  id, sequence, queue, type, fence, token, worker, run_at, attempts, crashes, max_attempts, max_crashes,
  cancel_requested, started_at, leased_until, endings
from tenure_jobs
where state = 'running' and leased_until <= :now
order by leased_until, sequence
limit :limit;

-- name: of the worker
-- The claims of one worker, expired or not.
select
  id, sequence, queue, type, fence, token, worker, run_at, attempts, crashes, max_attempts, max_crashes,
  cancel_requested, started_at, leased_until, endings
from tenure_jobs
where state = 'running' and worker = :worker
order by leased_until, sequence
limit :limit;
