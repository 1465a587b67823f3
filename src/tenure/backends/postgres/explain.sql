-- Read the facts that decide when a job is claimed.

-- name: outlook
-- Return the current time, the job, whether its queue is paused, how many jobs a claim takes before it (counted up to
-- :most), and the registry row of its worker.
-- The index of scheduled jobs has no priority, so at most :scan due jobs that are not promoted yet are compared.
with
stored as materialized (
  select
    json_build_array({live}) as job_json, job.state, job.queue, job.worker, -job.priority as rank, job.run_at,
    job.sequence
  from {schema}.jobs job
  where job.id = :id
  union all
  select
    json_build_array({finished}), job.state, job.queue, job.worker, -job.priority, job.run_at, job.sequence
  from {schema}.finished job
  where job.id = :id
),
due as materialized (
  select rank, run_at, sequence
  from stored
  where state = 'queued' and run_at <= {now}
),
lane as materialized (
{lanes}
),
came_due as (
  select next.rank, next.run_at, next.sequence
  from lane
  cross join lateral (
    select -job.priority as rank, job.run_at, job.sequence
    from {schema}.jobs job
    where
      job.state = 'queued' and not job.is_ready and job.queue = lane.queue and job.type = lane.type
      and job.run_at <= {now}
    limit :scan
  ) next
  limit :scan
),
ahead as (
  select next.sequence
  from due
  cross join lane
  cross join lateral (
    select job.sequence
    from {schema}.jobs job
    where
      job.is_ready and job.queue = lane.queue and job.type = lane.type
      and (-job.priority, job.run_at, job.sequence) < (due.rank, due.run_at, due.sequence)
    limit :most
  ) next
  union all
  select came_due.sequence
  from due
  join came_due on (came_due.rank, came_due.run_at, came_due.sequence) < (due.rank, due.run_at, due.sequence)
  limit :most
)
select json_build_array(
  {now},
  stored.job_json,
  exists (select from {schema}.paused where paused.queue = stored.queue),
  (select count(*) from ahead),
  (
    select json_build_array({worker}, 0)
    from {schema}.workers known
    where
      stored.state = 'running' and known.name = stored.worker
      and known.shown_until > {now} - cast(:evidence_kept as bigint) * interval '1 microsecond'
  )
)
from stored;
