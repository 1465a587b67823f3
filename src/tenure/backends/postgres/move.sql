-- Move jobs on behalf of an operator. Live jobs are already locked by `lock` in `settle.sql`.
-- Every statement returns, for each stored job: id, previous state, whether a cancel was requested, whether its key is
-- taken, and whether the job moved. If the state allows a move and the job did not move, a concurrent transaction
-- stored the job after the others were locked.

-- name: lock finished
-- ids: all jobs of the request; locked in the same order as the live jobs.
select count(*)
from (
  select
  from {schema}.finished
  where id = any (cast(:ids as text[]))
  order by id
  for update
) locked;

-- name: retry
-- Queue failed and cancelled jobs now. Of several jobs with the same key, only the first gets it. Rows are written in
-- the same order as in `enqueue.sql`, so that a concurrent enqueue of the same ids waits but does not deadlock.
with
{asked},
found as materialized (
{named}
),
turn as (
  select id, row_number() over (partition by queue, key order by number) as turn
  from found
  where key is not null and state in ('failed', 'cancelled')
),
key_taken as materialized (
  select found.id
  from found
  join turn on turn.id = found.id
  where
    turn.turn > 1
    or (
      select true
      from {schema}.jobs holder
      where
        holder.queue = found.queue and holder.key = found.key and holder.key is not null and holder.state <> 'failed'
      limit 1
    )
),
again as (
  update {schema}.jobs job
  set
    state = 'queued',
    is_ready = true,
    run_at = {now},
    attempts = 0,
    crashes = 0,
    endings = job.endings + 1,
    finished_at = null,
    progress = null
  from (select id, place, is_live, state from found order by queue, key, id) found
  where
    job.ctid = found.place and found.is_live and found.state = 'failed' and found.id not in (select id from key_taken)
  returning job.id, job.sequence, job.queue, job.fence, job.endings
),
left_off as (
  delete from {schema}.finished job
  using found
  where
    job.ctid = found.place and not found.is_live and found.state = 'cancelled'
    and found.id not in (select id from key_taken)
  returning {gone}, job.endings + 1 as endings
),
back as (
  insert into {schema}.jobs (
    id, sequence, queue, type, key, priority, run_at, is_ready, max_attempts, max_crashes, endings, fence, timeout,
    created_at, started_at, meta, payload
  )
  select
    id, sequence, queue, type, key, priority, {now}, true, max_attempts, max_crashes, endings, fence, timeout,
    created_at, started_at, meta, payload
  from left_off
  order by queue, key, id
),
moved as (
  select id, sequence, queue, fence, endings from again
  union all
  select id, sequence, queue, fence, endings from left_off
),
{operated}
select coalesce(
  json_agg(json_build_array(
    id, state, cancel_requested, id in (select id from key_taken), id in (select id from moved)
  )), '[]'
)
from found;

-- name: cancel
-- Cancel queued jobs, and request a cancel of running jobs.
with
{asked},
found as materialized (
{named}
),
left_off as (
  delete from {schema}.jobs job
  using found
  where job.ctid = found.place and found.is_live and found.state = 'queued'
  returning {gone}, job.attempts, job.crashes, job.endings + 1 as endings
),
cancelled as (
  insert into {schema}.finished ({kept}, state, finished_at)
  select {kept}, 'cancelled', {now}
  from left_off
),
told as (
  update {schema}.jobs job
  set
    cancel_requested = true,
    endings = job.endings + 1
  from found
  where job.ctid = found.place and found.is_live and found.state = 'running' and not found.cancel_requested
  returning job.id, job.sequence, job.queue, job.fence, job.endings
),
moved as (
  select id, sequence, queue, fence, endings from left_off
  union all
  select id, sequence, queue, fence, endings from told
),
{operated}
select coalesce(
  json_agg(json_build_array(id, state, cancel_requested, false, id in (select id from moved))), '[]'
)
from found;
