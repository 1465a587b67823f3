-- Claim due jobs: promote the jobs that became due, then take the first due jobs of all lanes.
-- A lane is a queue and type. Lanes are few, jobs are many: a statement reads the first job of each lane, or the jobs
-- of one lane in order.

-- name: held
-- The jobs held by a token.
select {job}
from tenure_jobs
where state = 'running' and token = :token
order by priority desc, run_at, sequence;

-- name: pending work
-- Whether the token holds jobs, whether a lease expired, and whether jobs are scheduled.
select
  exists (select 1 from tenure_jobs where state = 'running' and token = :token),
  exists (select 1 from tenure_jobs where state = 'running' and leased_until <= :now),
  exists (select 1 from tenure_lanes indexed by tenure_lanes_scheduled where scheduled > 0);

-- name: lanes that came due
-- The first scheduled job of each lane that is not paused, if it is due.
select first.run_at, first.sequence, lane.queue, lane.type
from {scheduled_lanes}
join tenure_jobs first on first.sequence = (
  select sequence
  from tenure_jobs
  where state = 'queued' and is_due = 0 and queue = lane.queue and type = lane.type
  order by run_at, sequence
  limit 1
)
where
  lane.scheduled > 0
  and (:types is null or lane.type in (select value from json_each(:types)))
  and lane.queue not in (select queue from tenure_paused)
  and first.run_at <= :now;

-- name: came due
-- The jobs of one lane that became due, oldest first.
select run_at, sequence, queue, type
from tenure_jobs
where state = 'queued' and is_due = 0 and queue = :queue and type = :type and run_at <= :now
order by run_at, sequence
limit :limit;

-- name: promote
update tenure_jobs
set is_due = 1
where sequence = :sequence;

-- name: due lanes
-- The first due job of each lane that is not paused.
select -first.priority, first.run_at, first.sequence, lane.queue, lane.type
from {due_lanes}
join tenure_jobs first on first.sequence = (
  select sequence
  from tenure_jobs
  where is_due = 1 and queue = lane.queue and type = lane.type
  order by priority desc, run_at, sequence
  limit 1
)
where
  lane.due > 0
  and (:types is null or lane.type in (select value from json_each(:types)))
  and lane.queue not in (select queue from tenure_paused);

-- name: due
-- The due jobs of one lane in claim order.
select -priority, run_at, sequence, queue, type
from tenure_jobs
where is_due = 1 and queue = :queue and type = :type
order by priority desc, run_at, sequence
limit :limit;

-- name: take
-- sequences: a JSON list of due jobs. They are leased, and their fence and attempts grow by 1.
update tenure_jobs
set
  state = 'running',
  is_due = 0,
  fence = fence + 1,
  attempts = attempts + 1,
  token = :token,
  worker = :worker,
  leased_until = :leased_until,
  started_at = :now,
  progress = null
where sequence in (select value from json_each(:sequences))
returning {job};
