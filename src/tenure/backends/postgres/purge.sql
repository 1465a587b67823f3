-- Delete and purge finished jobs, and delete empty lanes.

-- name: delete
-- Delete the given jobs, which are locked. Return the same columns as `move.sql`.
with
{requested},
found as materialized (
{requested_jobs}
),
failed as (
  delete from {schema}.jobs job
  using found
  where job.ctid = found.ctid and found.is_live and found.state = 'failed'
  returning job.id, job.sequence
),
finished as (
  delete from {schema}.finished job
  using found
  where job.ctid = found.ctid and not found.is_live
  returning job.id, job.sequence
),
deleted as (
  select id, sequence from failed
  union all
  select id, sequence from finished
),
{history_deleted}
select coalesce(
  json_agg(json_build_array(id, state, cancel_requested, false, id in (select id from deleted))), '[]'
)
from found;

-- name: purge
-- Delete the oldest jobs that finished up to a time, at most :limit; return their number.
-- The candidates are the first jobs of every lane and state, by index. Rows locked by another transaction are skipped,
-- so that no transaction waits.
with
lane as materialized (
  select lane.queue, lane.type
  from {schema}.lanes lane
  where cast(:queues as text[]) is null or lane.queue = any (cast(:queues as text[]))
),
old as materialized (
  select first.sequence
  from (
    select job.finished_at, job.sequence
    from lane
    cross join unnest(cast(:states as text[])) as requested (state)
    cross join lateral (
      select finished_at, sequence
      from {schema}.finished
      where queue = lane.queue and type = lane.type and state = requested.state and finished_at <= {before}
      order by finished_at, sequence
      limit :limit
    ) job
    union all
    select job.finished_at, job.sequence
    from lane
    cross join lateral (
      select finished_at, sequence
      from {schema}.jobs
      where state = 'failed' and queue = lane.queue and type = lane.type and finished_at <= {before}
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
    select locked_row.ctid
    from old
    cross join lateral (
      select ctid
      from {schema}.jobs
      where sequence = old.sequence and state = 'failed' and finished_at <= {before}
      for update skip locked
    ) locked_row
  ) locked_row
  where job.ctid = locked_row.ctid
  returning job.sequence
),
finished as (
  delete from {schema}.finished job
  using (
    select locked_row.ctid
    from old
    cross join lateral (
      select ctid from {schema}.finished where sequence = old.sequence for update skip locked
    ) locked_row
  ) locked_row
  where job.ctid = locked_row.ctid
  returning job.sequence
),
deleted as materialized (
  select sequence from failed
  union all
  select sequence from finished
),
{history_deleted}
select to_json(count(*))
from deleted;

-- name: has empty lanes
select to_json(exists ({empty_lanes}));

-- name: lock lanes
-- Every enqueue inserts into this table, even if the lane exists, and holds its table lock until commit.
lock table {schema}.lanes in share row exclusive mode nowait;

-- name: delete empty lanes
delete from {schema}.lanes
where (queue, type) in ({empty_lanes});
