-- name: job
-- The columns of a job, in the order that `rows.py` decodes. Texts that other code may have changed are read as bytes:
-- the driver raises an error for a text that is not valid UTF-8.
id, type, queue, key, priority, run_at, state, attempts, crashes, max_attempts, max_crashes, timeout, fence, worker,
leased_until, progress, cancel_requested, cast(result as blob), result_dropped, created_at, started_at, finished_at,
cast((select payload from tenure_payloads where job = sequence) as blob), cast(meta as blob), endings,
case when endings > 0 then (
  select cast(json_group_array(json_array(outcome, fence, ended_at, token, worker, claimed_at, error)) as blob)
  from (
    select h.outcome, h.fence, h.ended_at, h.token, h.worker, h.claimed_at, h.error
    from tenure_history h
    where h.job = sequence
    order by h.number
  )
) end,
sequence
