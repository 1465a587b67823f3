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
{requested},
found as materialized (
{requested_jobs}
),
ranked as (
  select id, row_number() over (partition by queue, key order by number) as key_rank
  from found
  where key is not null and state in ('failed', 'cancelled')
),
key_taken as materialized (
  select found.id
  from found
  join ranked on ranked.id = found.id
  where
    ranked.key_rank > 1
    or (
      select true
      from {schema}.jobs holder
      where
        holder.queue = found.queue and holder.key = found.key and holder.key is not null and holder.state <> 'failed'
      limit 1
    )
),
requeued as (
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
  from (select id, ctid, is_live, state from found order by queue, key, id) found
  where
    job.ctid = found.ctid and found.is_live and found.state = 'failed' and found.id not in (select id from key_taken)
  returning job.id, job.sequence, job.queue, job.fence, job.endings
),
removed as (
  delete from {schema}.finished job
  using found
  where
    job.ctid = found.ctid and not found.is_live and found.state = 'cancelled'
    and found.id not in (select id from key_taken)
  returning {moved_columns}, job.endings + 1 as endings
),
reinserted as (
  insert into {schema}.jobs (
    id, sequence, queue, type, key, priority, run_at, is_ready, max_attempts, max_crashes, endings, fence, timeout,
    created_at, started_at, meta, payload
  )
  select
    id, sequence, queue, type, key, priority, {now}, true, max_attempts, max_crashes, endings, fence, timeout,
    created_at, started_at, meta, payload
  from removed
  order by queue, key, id
),
moved as (
  select id, sequence, queue, fence, endings from requeued
  union all
  select id, sequence, queue, fence, endings from removed
),
{recorded_moves}
select coalesce(
  json_agg(json_build_array(
    id, state, cancel_requested, id in (select id from key_taken), id in (select id from moved)
  )), '[]'
)
from found;

-- name: cancel
-- Cancel queued jobs, and request a cancel of running jobs.
with
{requested},
found as materialized (
{requested_jobs}
),
removed as (
  delete from {schema}.jobs job
  using found
  where job.ctid = found.ctid and found.is_live and found.state = 'queued'
  returning {moved_columns}, job.attempts, job.crashes, job.endings + 1 as endings
),
cancelled as (
  insert into {schema}.finished ({finished_columns}, state, finished_at)
  select {finished_columns}, 'cancelled', {now}
  from removed
),
flagged as (
  update {schema}.jobs job
  set
    cancel_requested = true,
    endings = job.endings + 1
  from found
  where job.ctid = found.ctid and found.is_live and found.state = 'running' and not found.cancel_requested
  returning job.id, job.sequence, job.queue, job.fence, job.endings
),
moved as (
  select id, sequence, queue, fence, endings from removed
  union all
  select id, sequence, queue, fence, endings from flagged
),
{recorded_moves}
select coalesce(
  json_agg(json_build_array(id, state, cancel_requested, false, id in (select id from moved))), '[]'
)
from found;
