-- Retry or cancel rows for an operator, only in states that allow the move.

-- name: retry
-- Requeue failed and cancelled rows, due now. key_1 …: the keys of the rows; note: for the history; retry_1 …: the
-- values for the user's columns in `on_retry`.
with
{found},
{ending_of_retried},
moved as (
  update {home} job
  set
    {state} = {queued},
    {run_at} = (ending.now){zone[run_at]},
    {attempts} = 0,
    {crashes} = 0,
    {token} = null,
    {worker} = null,
    {leased_until} = null,
    {completed_at} = null,{set_retry_error}{set_by_retry}
    {record} = ending.record
  from ending
  where {job_is[ending]}
  returning {keys_of[ending]}
){and_user_rows_updated}
{answer_of_move};

-- name: cancel
-- Cancel queued rows; request cancellation of running rows.
with
{found},
{ending_of_cancelled},
changed as (
  update {home} job
  set
    {state} = case ending.state when 'queued' then {cancelled} else job.{state} end,
    {token} = case when ending.state <> 'queued' then job.{token} end,
    {worker} = case when ending.state <> 'queued' then job.{worker} end,
    {leased_until} = case when ending.state <> 'queued' then job.{leased_until} end,
    {completed_at} = case
      when ending.state = 'queued' then (ending.now){zone[completed_at]} else job.{completed_at}
    end,{set_cancel_error}
    {record} = ending.record
  from ending
  where {job_is[ending]} and ending.has_row
  returning {keys_of[ending]}
),
{moved_by_cancel}
{answer_of_move};
