-- Store new jobs.
-- Stored jobs are looked up one by one. `offset 0` and scalar subqueries force index lookups: a cached plan from the
-- time when a table was small could otherwise scan the whole table later.

-- name: insert
-- Store the jobs whose id and key are not taken by a live job; return the positions of the rest.
-- Sequence numbers follow the order of the request. Rows are inserted in key order, so that two transactions with the
-- same keys wait for each other but do not deadlock. A lane is created with its first job; the insert also keeps an
-- existing lane from being deleted meanwhile (see `delete empty lanes`).
with
requested as materialized (
  select
    nextval('{schema}.job_sequence') as sequence, id, queue, type, key, priority,
    coalesce(run_at, {now} + delay * interval '1 microsecond') as run_at, max_attempts, max_crashes, timeout,
    meta, payload, number
  from unnest(
    cast(:ids as text[]), cast(:queues as text[]), cast(:types as text[]), cast(:keys as text[]),
    cast(:priorities as integer[]), cast(:run_ats as timestamptz[]), cast(:delays as bigint[]),
    cast(:max_attempts as integer[]), cast(:max_crashes as integer[]), cast(:timeouts as double precision[]),
    cast(:metas as text[]), cast(:payloads as text[])
  ) with ordinality as requested (
    id, queue, type, key, priority, run_at, delay, max_attempts, max_crashes, timeout, meta, payload, number
  )
),
lane as (
  insert into {schema}.lanes (queue, type)
  select distinct queue, type
  from requested
  order by queue, type
  on conflict do nothing
),
stored as (
  insert into {schema}.jobs (
    id, sequence, queue, type, key, priority, run_at, is_ready, max_attempts, max_crashes, timeout, meta, payload,
    created_at
  )
  select
    requested.id, sequence, queue, type, key, priority, run_at, run_at <= {now}, max_attempts, max_crashes, timeout,
    cast(meta as json), cast(payload as json), {now}
  from requested
  order by queue, key, requested.id
  on conflict do nothing
  returning id, queue
),
counted as (
  insert into {schema}.counts (minute_at, queue, event, number)
  select date_trunc('minute', {now}, 'UTC'), queue, 'enqueued', count(*)
  from stored
  group by queue
)
select coalesce(json_agg(number), '[]')
from requested
where id not in (select id from stored);

-- name: undo
-- Delete jobs just stored whose id exists in `finished`; return their ids. This is a separate statement, since the job
-- may have finished while the insert waited for its id.
with
duplicate as (
  delete from {schema}.jobs job
  using (
    select new_job.ctid
    from unnest(cast(:ids as text[])) as requested (id)
    cross join lateral (select from {schema}.finished where id = requested.id offset 0) finished
    cross join lateral (select ctid from {schema}.jobs where id = requested.id offset 0) new_job
  ) new_job
  where job.ctid = new_job.ctid
  returning job.id, job.queue
),
counted as (
  insert into {schema}.counts (minute_at, queue, event, number)
  select date_trunc('minute', {now}, 'UTC'), queue, 'enqueued', -count(*)
  from duplicate
  group by queue
)
select coalesce(json_agg(id), '[]')
from duplicate;

-- name: stored
-- Return which of the ids exist, live or finished.
select coalesce(json_agg(id), '[]')
from (
  select id from {schema}.jobs where id = any (cast(:ids as text[]))
  union
  select id from {schema}.finished where id = any (cast(:ids as text[]))
) stored;

-- name: holders of keys
-- Return the live jobs that hold the given keys.
select coalesce(json_agg(json_build_array(requested.queue, requested.key, holder.id)), '[]')
from unnest(cast(:queues as text[]), cast(:keys as text[])) as requested (queue, key)
cross join lateral (
  select id
  from {schema}.jobs
  where queue = requested.queue and key = requested.key and key is not null and state <> 'failed'
  offset 0
) holder;

-- name: lock holders of keys
-- Keep the queued jobs that hold the given keys from being claimed before the caller's transaction ends: such a job must
-- not run without seeing what the caller commits. Claims lock `for update`, which conflicts with this lock.
-- Jobs are locked in the order of their ids, as by all other statements.
select count(*)
from (
  select
  from {schema}.jobs job
  where
    job.id = any (array(
      select holder.id
      from unnest(cast(:queues as text[]), cast(:keys as text[])) as requested (queue, key)
      cross join lateral (
        select id
        from {schema}.jobs
        where queue = requested.queue and key = requested.key and key is not null and state = 'queued'
        offset 0
      ) holder
    ))
    and job.state = 'queued'
  order by job.id
  for key share
) locked;

-- name: probe finished
-- Under repeatable read or serializable the snapshot misses jobs finished since. Inserting the new jobs into `finished`
-- makes the server abort the transaction if an id exists there …
insert into {schema}.finished (
  id, sequence, queue, type, priority, run_at, state, attempts, crashes, max_crashes, endings, fence, created_at,
  finished_at, payload
)
select
  id, sequence, queue, type, priority, run_at, 'cancelled', attempts, crashes, max_crashes, endings, fence, created_at,
  created_at, payload
from {schema}.jobs
where id = any (cast(:ids as text[]))
on conflict do nothing;

-- name: remove probe
-- … and this removes them again.
delete from {schema}.finished
where id = any (cast(:ids as text[]));
