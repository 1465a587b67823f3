-- End claims: settle and reap.
-- The same transaction first reads the job and decides whether the claim is held; no other writer can intervene.

-- name: look up
-- ids: a JSON list. The columns that decide whether a claim is held.
select id, sequence, queue, type, state, fence, token
from tenure_jobs
where id in (select value from json_each(:ids));

-- name: held
-- The columns that the end of a claim depends on.
select
  id, sequence, queue, type, fence, token, worker, run_at, attempts, crashes, max_attempts, max_crashes,
  cancel_requested, started_at, leased_until, endings
from tenure_jobs
where sequence = :sequence;

-- name: complete
-- Parameters in order: result, result_dropped, now, sequence.
-- A completed job keeps its token, which identifies a resent completion, and the worker that completed it.
update tenure_jobs
set
  state = 'completed',
  leased_until = null,
  cancel_requested = 0,
  result = ?,
  result_dropped = ?,
  finished_at = ?
where sequence = ?;

-- name: end
update tenure_jobs
set
  state = :state,
  is_due = :is_due,
  run_at = :run_at,
  attempts = :attempts,
  crashes = :crashes,
  token = null,
  worker = null,
  leased_until = null,
  cancel_requested = 0,
  endings = endings + 1,
  finished_at = :finished_at
where sequence = :sequence;

-- name: has ended
-- Whether the history contains this outcome of this claim.
select 1
from tenure_history
where job = :sequence and fence = :fence and token = :token and outcome = :outcome;
