-- Retry or cancel jobs on behalf of an operator. The same transaction first reads the job and decides whether it may
-- move.

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

-- name: request cancel
update tenure_jobs
set
  cancel_requested = 1,
  endings = endings + 1
where sequence = :sequence;

-- name: job
-- The columns that decide whether a job may move.
select sequence, queue, type, key, state, is_due, fence, cancel_requested, endings
from tenure_jobs
where id = :id;
