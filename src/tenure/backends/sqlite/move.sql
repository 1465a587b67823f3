-- Move jobs by an operator's hand. Whether a job may move is looked up and decided first, in the same transaction.

-- name: retry
update tenure_jobs
set
  state = 'queued',
  is_due = 1,
  run_at = :now,
  attempts = 0,
  crashes = 0,
  progress = null,
  endings = endings + 1,
  finished_at = null
where sequence = :sequence;

-- name: cancel
update tenure_jobs
set
  state = 'cancelled',
  is_due = 0,
  endings = endings + 1,
  finished_at = :now
where sequence = :sequence;

-- name: ask to cancel
update tenure_jobs
set
  cancel_requested = 1,
  endings = endings + 1
where sequence = :sequence;

-- name: job
-- What a move depends on.
select sequence, queue, type, key, state, is_due, fence, cancel_requested, endings
from tenure_jobs
where id = :id;
