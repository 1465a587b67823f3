-- Store new jobs.
-- What is stored is looked up one by one. `offset 0`, and a `select` for a value, leave the planner no choice: a plan made
-- while a table was small would else read all of it when it is large.

-- name: insert
-- Store these jobs but for those whose id or key is taken by a live one; answer the numbers of the others.
-- They are numbered in the order asked, and stored in the order of their keys: two who store the same keys at the same
-- time then wait one for the other, never each for each. A lane is made with its first job; even if it is there, what
-- is done about it keeps it from being swept away (see `sweep lanes`).
with
asked as materialized (
  select
    nextval('{schema}.job_sequence') as sequence, id, queue, type, key, priority,
    coalesce(run_at, {now} + delay * interval '1 microsecond') as run_at, max_attempts, max_crashes, timeout,
    meta, payload, number
  from unnest(
    cast(:ids as text[]), cast(:queues as text[]), cast(:types as text[]), cast(:keys as text[]),
    cast(:priorities as integer[]), cast(:run_ats as timestamptz[]), cast(:delays as bigint[]),
    cast(:max_attempts as integer[]), cast(:max_crashes as integer[]), cast(:timeouts as double precision[]),
    cast(:metas as text[]), cast(:payloads as text[])
  ) with ordinality as asked (
    id, queue, type, key, priority, run_at, delay, max_attempts, max_crashes, timeout, meta, payload, number
  )
),
lane as (
  insert into {schema}.lanes (queue, type)
  select distinct queue, type
  from asked
  order by queue, type
  on conflict do nothing
),
stored as (
  insert into {schema}.jobs (
    id, sequence, queue, type, key, priority, run_at, is_ready, max_attempts, max_crashes, timeout, meta, payload,
    created_at
  )
  select
    asked.id, sequence, queue, type, key, priority, run_at, run_at <= {now}, max_attempts, max_crashes, timeout,
    cast(meta as json), cast(payload as json), {now}
  from asked
  order by queue, key, asked.id
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
from asked
where id not in (select id from stored);

-- name: take back
-- Of jobs just stored, those that are stored as finished; answer their ids. Only now: their end may have been committed
-- while their id was waited for.
with
twice as (
  delete from {schema}.jobs job
  using (
    select mine.place
    from unnest(cast(:ids as text[])) as asked (id)
    cross join lateral (select from {schema}.finished where id = asked.id offset 0) finished
    cross join lateral (select ctid as place from {schema}.jobs where id = asked.id offset 0) mine
  ) mine
  where job.ctid = mine.place
  returning job.id, job.queue
),
counted as (
  insert into {schema}.counts (minute_at, queue, event, number)
  select date_trunc('minute', {now}, 'UTC'), queue, 'enqueued', -count(*)
  from twice
  group by queue
)
select coalesce(json_agg(id), '[]')
from twice;

-- name: stored
-- Which of these ids are stored, finished or not.
select coalesce(json_agg(id), '[]')
from (
  select id from {schema}.jobs where id = any (cast(:ids as text[]))
  union
  select id from {schema}.finished where id = any (cast(:ids as text[]))
) stored;

-- name: holders of keys
-- The live jobs of these queues that have these keys.
select coalesce(json_agg(json_build_array(asked.queue, asked.key, holder.id)), '[]')
from unnest(cast(:queues as text[]), cast(:keys as text[])) as asked (queue, key)
cross join lateral (
  select id
  from {schema}.jobs
  where queue = asked.queue and key = asked.key and key is not null and state <> 'failed'
  offset 0
) holder;

-- name: tried as finished
-- A transaction that keeps one snapshot does not see what was finished since. It puts the jobs that it has just stored
-- among the finished ones, where the server gives it up if one of the ids is there …
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

-- name: not finished
-- … and take them out again.
delete from {schema}.finished
where id = any (cast(:ids as text[]));
