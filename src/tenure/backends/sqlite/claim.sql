-- Take due jobs: let in what came due, then take the first of all lines.
-- A line is the jobs of one queue and type. The lines are few, the jobs many: each statement looks at the first of each
-- line, or walks down one line.

-- name: held
-- The jobs that a token holds.
select {job}
from tenure_jobs
where state = 'running' and token = :token
order by priority desc, run_at, sequence;

-- name: what is to be done first
-- Whether the token holds something, whether a lease ran out, and whether anything is scheduled.
select
  exists (select 1 from tenure_jobs where state = 'running' and token = :token),
  exists (select 1 from tenure_jobs where state = 'running' and leased_until <= :now),
  exists (select 1 from tenure_lanes indexed by tenure_lanes_scheduled where scheduled > 0);

-- name: lines that came due
-- The first scheduled job of each line that may be claimed from, if its time has come.
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
-- One line: what came due, oldest first.
select run_at, sequence, queue, type
from tenure_jobs
where state = 'queued' and is_due = 0 and queue = :queue and type = :type and run_at <= :now
order by run_at, sequence
limit :limit;

-- name: let in
update tenure_jobs
set is_due = 1
where sequence = :sequence;

-- name: due lines
-- The first due job of each line that may be claimed from.
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
-- One line: the due jobs in their order.
select -priority, run_at, sequence, queue, type
from tenure_jobs
where is_due = 1 and queue = :queue and type = :type
order by priority desc, run_at, sequence
limit :limit;

-- name: take
-- sequences: a JSON list of jobs that are due. Each is leased, with its fence and attempts one higher.
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
