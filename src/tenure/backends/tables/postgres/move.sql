-- Move rows by an operator's hand, each only from the states that allow it.

-- name: retry
-- Queue the failed and the cancelled ones now. key_1 …: those that are named; note: for their history; retry_1 …: what the
-- user's columns are set to.
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
    {completed_at} = null,{error_retried}{set_by_retry}
    {record} = ending.record
  from ending
  where {job_is[ending]}
  returning {keys_of[ending]}
){and_touched}
{answer_of_move};

-- name: cancel
-- End the queued ones, and ask the running ones.
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
    end,{error_moved}
    {record} = ending.record
  from ending
  where {job_is[ending]} and ending.has_row
  returning {keys_of[ending]}
),
{moved_by_cancel}
{answer_of_move};
