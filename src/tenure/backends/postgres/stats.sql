-- Count the jobs by queue and type.

-- name: stats
-- Return the counts of every lane that is not empty, and the paused queues.
-- Running jobs are counted exactly, in one scan; the other states are counted up to :scan in each lane. To find the
-- oldest ready job, the index is probed once for each priority in use.
with recursive
running as materialized (
  select queue, type, count(*) as number
  from {schema}.jobs
  where leased_until is not null
  group by queue, type
),
priority (queue, type, rank) as (
  select lane.queue, lane.type, first.rank
  from {schema}.lanes lane
  cross join lateral (
    select -job.priority as rank
    from {schema}.jobs job
    where job.is_ready and job.queue = lane.queue and job.type = lane.type
    order by -job.priority
    limit 1
  ) first
  union all
  select above.queue, above.type, next.rank
  from priority above
  cross join lateral (
    select -job.priority as rank
    from {schema}.jobs job
    where job.is_ready and job.queue = above.queue and job.type = above.type and -job.priority > above.rank
    order by -job.priority
    limit 1
  ) next
),
oldest as materialized (
  select priority.queue, priority.type, min(first.run_at) as run_at
  from priority
  cross join lateral (
    select job.run_at
    from {schema}.jobs job
    where
      job.is_ready and job.queue = priority.queue and job.type = priority.type and -job.priority = priority.rank
    order by job.run_at
    limit 1
  ) first
  group by priority.queue, priority.type
),
lane as (
  select
    lane.queue, lane.type, least(ready.number + came_due.number, :scan) as due, scheduled.number as scheduled,
    coalesce(running.number, 0) as running, completed.number as completed, failed.number as failed,
    cancelled.number as cancelled, least(oldest.run_at, came_due.oldest_at) as oldest_due_at
  from {schema}.lanes lane
  left join running on running.queue = lane.queue and running.type = lane.type
  left join oldest on oldest.queue = lane.queue and oldest.type = lane.type
  cross join lateral (
    select count(*) as number
    from (
      select
      from {schema}.jobs job
      where job.is_ready and job.queue = lane.queue and job.type = lane.type
      limit :scan
    ) job
  ) ready
  cross join lateral (
    select count(*) as number, min(job.run_at) as oldest_at
    from (
      select run_at
      from {schema}.jobs job
      where
        job.state = 'queued' and not job.is_ready and job.queue = lane.queue and job.type = lane.type
        and job.run_at <= {now}
      order by run_at
      limit :scan
    ) job
  ) came_due
  cross join lateral (
    select count(*) as number
    from (
      select
      from {schema}.jobs job
      where
        job.state = 'queued' and not job.is_ready and job.queue = lane.queue and job.type = lane.type
        and job.run_at > {now}
      limit :scan
    ) job
  ) scheduled
  cross join lateral (
    select count(*) as number
    from (
      select
      from {schema}.jobs job
      where job.state = 'failed' and job.queue = lane.queue and job.type = lane.type
      limit :scan
    ) job
  ) failed
  cross join lateral (
    select count(*) as number
    from (
      select
      from {schema}.finished job
      where job.queue = lane.queue and job.type = lane.type and job.state = 'completed'
      limit :scan
    ) job
  ) completed
  cross join lateral (
    select count(*) as number
    from (
      select
      from {schema}.finished job
      where job.queue = lane.queue and job.type = lane.type and job.state = 'cancelled'
      limit :scan
    ) job
  ) cancelled
)
select json_build_array(
  coalesce((
    select json_agg(
      json_build_array(queue, type, due, scheduled, running, completed, failed, cancelled, oldest_due_at)
      order by queue, type
    )
    from lane
    where due + scheduled + running + completed + failed + cancelled > 0
  ), '[]'),
  coalesce((select json_agg(queue order by queue) from {schema}.paused), '[]')
);
