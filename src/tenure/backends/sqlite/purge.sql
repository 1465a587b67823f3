-- Delete finished jobs.

-- name: first finished
-- states: a JSON list. The oldest job of each queue and state, if it finished up to :before.
select first.finished_at, first.sequence, first.type, first.queue, first.state
from (select distinct queue from tenure_lanes) lane
join json_each(:states) state
join tenure_jobs first on first.sequence = (
  select sequence
  from tenure_jobs
  where finished_at is not null and queue = lane.queue and state = state.value
  order by finished_at, sequence
  limit 1
)
where
  (:queues is null or lane.queue in (select value from json_each(:queues)))
  and first.finished_at <= :before;

-- name: finished
-- The jobs of one queue and state that finished up to :before, the oldest first.
select finished_at, sequence, type, queue, state
from tenure_jobs
where finished_at is not null and queue = :queue and state = :state and finished_at <= :before
order by finished_at, sequence
limit :limit;

-- name: job
delete from tenure_jobs
where sequence = :sequence;

-- name: payload
delete from tenure_payloads
where job = :sequence;

-- name: history
delete from tenure_history
where job = :sequence;
