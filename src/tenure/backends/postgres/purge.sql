-- Delete and purge finished jobs, and delete empty lanes.

-- name: delete
-- Delete the given jobs, which are locked. Return the same columns as `move.sql`.
with
{asked},
found as materialized (
{named}
),
failed as (
  delete from {schema}.jobs job
  using found
  where job.ctid = found.place and found.is_live and found.state = 'failed'
  returning job.id, job.sequence
),
finished as (
  delete from {schema}.finished job
  using found
  where job.ctid = found.place and not found.is_live
  returning job.id, job.sequence
),
gone as (
  select id, sequence from failed
  union all
  select id, sequence from finished
),
{history_gone}
select coalesce(
  json_agg(json_build_array(id, state, cancel_requested, false, id in (select id from gone))), '[]'
)
from found;

-- name: purge
-- Delete the oldest jobs that finished up to a time, at most :limit; return their number.
-- The candidates are the first jobs of every lane and state, by index. Rows locked by another transaction are skipped,
-- so that no transaction waits.
with
line as materialized (
  select lane.queue, lane.type
  from {schema}.lanes lane
  where cast(:queues as text[]) is null or lane.queue = any (cast(:queues as text[]))
),
old as materialized (
  select first.sequence
  from (
    select job.finished_at, job.sequence
    from line
    cross join unnest(cast(:states as text[])) as wanted (state)
    cross join lateral (
      select finished_at, sequence
      from {schema}.finished
      where queue = line.queue and type = line.type and state = wanted.state and finished_at <= {before}
      order by finished_at, sequence
      limit :limit
    ) job
    union all
    select job.finished_at, job.sequence
    from line
    cross join lateral (
      select finished_at, sequence
      from {schema}.jobs
      where state = 'failed' and queue = line.queue and type = line.type and finished_at <= {before}
      order by finished_at, sequence
      limit :limit
    ) job
    where 'failed' = any (cast(:states as text[]))
  ) first
  order by first.finished_at, first.sequence
  limit :limit
),
failed as (
  delete from {schema}.jobs job
  using (
    select still.place
    from old
    cross join lateral (
      select ctid as place
      from {schema}.jobs
      where sequence = old.sequence and state = 'failed' and finished_at <= {before}
      for update skip locked
    ) still
  ) still
  where job.ctid = still.place
  returning job.sequence
),
finished as (
  delete from {schema}.finished job
  using (
    select still.place
    from old
    cross join lateral (
      select ctid as place from {schema}.finished where sequence = old.sequence for update skip locked
    ) still
  ) still
  where job.ctid = still.place
  returning job.sequence
),
gone as materialized (
  select sequence from failed
  union all
  select sequence from finished
),
{history_gone}
select to_json(count(*))
from gone;

-- name: has empty lanes
select to_json(exists ({empty_lanes}));

-- name: hold lanes
-- Every enqueue inserts into this table, even if the lane exists, and holds its table lock until commit.
lock table {schema}.lanes in share row exclusive mode nowait;

-- name: sweep lanes
delete from {schema}.lanes
where (queue, type) in ({empty_lanes});
