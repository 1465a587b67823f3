-- Count the jobs by queue and type.

-- name: lanes
-- Jobs that became due but are not promoted yet are counted up to :scan. The oldest due job is the first job of one of
-- the priorities, so the query steps through the priorities by index.
with recursive
priorities (queue, type, priority) as (
  select queue, type, (
    select priority
    from tenure_jobs
    where is_due = 1 and queue = lane.queue and type = lane.type
    order by priority desc
    limit 1
  )
  from tenure_lanes lane
  where due > 0
  union all
  select queue, type, (
    select priority
    from tenure_jobs
    where is_due = 1 and queue = above.queue and type = above.type and priority < above.priority
    order by priority desc
    limit 1
  )
  from priorities above
  where priority is not null
),
oldest (queue, type, run_at) as (
  select queue, type, min((
    select run_at
    from tenure_jobs
    where is_due = 1 and queue = each.queue and type = each.type and priority = each.priority
    order by run_at
    limit 1
  ))
  from priorities each
  where priority is not null
  group by queue, type
)
select
  lane.queue, lane.type, lane.due, lane.scheduled, lane.running, lane.completed, lane.failed, lane.cancelled,
  (
    select count(*)
    from (
      select 1
      from tenure_jobs
      where state = 'queued' and is_due = 0 and queue = lane.queue and type = lane.type and run_at <= :now
      limit :scan
    )
  ),
  oldest.run_at,
  (
    select min(run_at)
    from tenure_jobs
    where state = 'queued' and is_due = 0 and queue = lane.queue and type = lane.type and run_at <= :now
  )
from tenure_lanes lane
left join oldest on oldest.queue = lane.queue and oldest.type = lane.type
order by lane.queue, lane.type;
