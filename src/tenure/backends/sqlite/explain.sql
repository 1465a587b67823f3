-- Read the facts that decide when a claim takes a job.

-- name: job
select {job}
from tenure_jobs
where id = :id;

-- name: is paused
select exists (select 1 from tenure_paused where queue = :queue);

-- name: ahead
-- Count the jobs that a claim takes before the job with :priority, :run_at and :sequence, up to :most.
-- Each comparison is a separate index scan, which begins at the first matching entry and ends at the last. The index of
-- jobs that became due but are not promoted yet has no priority: at most :scan of these are read.
with
due_lane (queue, type) as (
  select lane.queue, lane.type
  from {due_lanes}
  where
    lane.due > 0
    and (:types is null or lane.type in (select value from json_each(:types)))
    and lane.queue not in (select queue from tenure_paused)
),
scheduled_lane (queue, type) as (
  select lane.queue, lane.type
  from {scheduled_lanes}
  where
    lane.scheduled > 0
    and (:types is null or lane.type in (select value from json_each(:types)))
    and lane.queue not in (select queue from tenure_paused)
),
came_due (priority, run_at, sequence) as (
  select job.priority, job.run_at, job.sequence
  from scheduled_lane lane
  cross join tenure_jobs job indexed by tenure_scheduled
  where job.state = 'queued' and job.is_due = 0 and job.queue = lane.queue and job.type = lane.type and job.run_at <= :now
  limit :scan
),
ahead (sequence) as (
  select job.sequence
  from due_lane lane
  cross join tenure_jobs job indexed by tenure_due
  where job.is_due = 1 and job.queue = lane.queue and job.type = lane.type and job.priority > :priority
  union all
  select job.sequence
  from due_lane lane
  cross join tenure_jobs job indexed by tenure_due
  where
    job.is_due = 1 and job.queue = lane.queue and job.type = lane.type and job.priority = :priority
    and job.run_at < :run_at
  union all
  select job.sequence
  from due_lane lane
  cross join tenure_jobs job indexed by tenure_due
  where
    job.is_due = 1 and job.queue = lane.queue and job.type = lane.type and job.priority = :priority
    and job.run_at = :run_at and job.sequence < :sequence
  union all
  select sequence
  from came_due
  where (-priority, run_at, sequence) < (-:priority, :run_at, :sequence)
  limit :most
)
select count(*)
from ahead;
