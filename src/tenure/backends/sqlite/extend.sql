-- Prolong leases.

-- name: extend
-- Only for a holder; a lease is never shortened, and no progress keeps what was there.
update tenure_jobs
set
  leased_until = max(leased_until, :leased_until),
  progress = coalesce(:progress, progress)
where id = :id and state = 'running' and fence = :fence and token = :token
returning cancel_requested;
