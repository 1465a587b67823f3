-- Whether a claim may find a job now, or else when.

-- name: is due
select exists (
  select 1
  from {due_lanes}
  where
    lane.due > 0
    and (:types is null or lane.type in (select value from json_each(:types)))
    and lane.queue not in (select queue from tenure_paused)
);

-- name: next
-- The time at which the next scheduled job becomes due, and at which the next lease expires.
select min(first), (select min(leased_until) from tenure_jobs where state = 'running')
from (
  select (
    select min(run_at)
    from tenure_jobs
    where state = 'queued' and is_due = 0 and queue = lane.queue and type = lane.type
  ) as first
  from {scheduled_lanes}
  where
    lane.scheduled > 0
    and (:types is null or lane.type in (select value from json_each(:types)))
    and lane.queue not in (select queue from tenure_paused)
);
