-- Extend leases.

-- name: extend
-- Only for the holder. A lease is never shortened. A progress of null keeps the stored progress.
update tenure_jobs
set
  leased_until = max(leased_until, :leased_until),
  progress = coalesce(:progress, progress)
where id = :id and state = 'running' and fence = :fence and token = :token
returning cancel_requested;
