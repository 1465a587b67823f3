-- Fragments shared by several statements. A fragment may use the fragments above it.

-- name: now
-- The current time: the server's clock, unless a test sets another.
coalesce(cast(:now as timestamptz), statement_timestamp())

-- name: this_store
-- The identity of the store and of its database.
{schema}.store_v1() || ' in ' || (select oid from pg_catalog.pg_database where datname = current_database())

-- name: history
-- The history of a job, null if empty.
case when job.endings > 0 then (
  select json_agg(
    json_build_array(h.outcome, h.fence, h.ended_at, h.token, h.worker, h.claimed_at, h.error) order by h.number
  )
  from {schema}.history h
  where h.job = job.sequence
) end

-- name: taken
-- The columns of a claimed job …
job.id, job.type, job.queue, job.key, job.priority, job.run_at, job.attempts, job.crashes, job.max_attempts,
job.max_crashes, job.timeout, job.fence, job.payload, job.meta, job.created_at, job.endings,
{history} as history,
job.sequence

-- name: taken_columns
-- … aggregated by column, in the order of `rows.claimed_job`: faster to write and to parse than row by row.
json_agg(id), json_agg(type), json_agg(queue), json_agg(key), json_agg(priority), json_agg(run_at), json_agg(attempts),
json_agg(crashes), json_agg(max_attempts), json_agg(max_crashes), json_agg(timeout), json_agg(fence),
json_agg(payload), json_agg(meta), json_agg(created_at), json_agg(endings), json_agg(history), json_agg(sequence)

-- name: live
-- A job that is queued, running or failed, in the order of `rows.job_of`.
job.id, job.type, job.queue, job.key, job.priority, job.run_at, job.attempts, job.crashes, job.max_attempts,
job.max_crashes, job.timeout, job.fence, job.payload, job.meta, job.created_at, job.endings,
{history},
job.state, job.worker, job.leased_until, job.progress, job.cancel_requested, null, false, job.started_at,
job.finished_at, job.sequence

-- name: finished
-- A job that is completed or cancelled, in the same order. A null result is a JSON null, not an SQL null.
job.id, job.type, job.queue, job.key, job.priority, job.run_at, job.attempts, job.crashes, job.max_attempts,
job.max_crashes, job.timeout, job.fence, job.payload, job.meta, job.created_at, job.endings,
{history},
job.state, job.worker, null, job.progress, false, job.result, job.result_dropped, job.started_at,
job.finished_at, job.sequence

-- name: lanes all
-- The lanes to claim from, for a request of all queues …
  select lane.queue, lane.type
  from {schema}.lanes lane
  where
    (cast(:queues as text[]) is null or lane.queue = any (cast(:queues as text[])))
    and (cast(:types as text[]) is null or lane.type = any (cast(:types as text[])))
    and not exists (select from {schema}.paused where paused.queue = lane.queue)

-- name: lanes of queues
-- … of certain queues …
  select lane.queue, lane.type
  from unnest(cast(:queues as text[])) as requested_queue (queue)
  cross join lateral (select queue, type from {schema}.lanes where queue = requested_queue.queue) lane
  where
    (cast(:types as text[]) is null or lane.type = any (cast(:types as text[])))
    and not exists (select from {schema}.paused where paused.queue = lane.queue)

-- name: lanes of queues and types
-- … or of certain queues and types. Every form reads only the requested lanes.
  select lane.queue, lane.type
  from unnest(cast(:queues as text[])) as requested_queue (queue)
  cross join unnest(cast(:types as text[])) as requested_type (type)
  cross join lateral (
    select queue, type from {schema}.lanes where queue = requested_queue.queue and type = requested_type.type
  ) lane
  where not exists (select from {schema}.paused where paused.queue = lane.queue)

-- name: by_id
-- The requested job. `offset 0` makes the planner use the primary key: the indexes of tokens and leases may be full of
-- dead entries.
select
  job.ctid, job.sequence, job.queue, job.state, job.fence, job.token, job.worker, job.run_at, job.started_at,
  job.attempts, job.max_attempts, job.crashes, job.endings, job.cancel_requested
from {schema}.jobs job
where job.id = requested.id
offset 0

-- name: moved_columns
-- The columns that move unchanged to `finished` …
job.id, job.sequence, job.queue, job.type, job.key, job.priority, job.run_at, job.max_attempts, job.max_crashes,
job.fence, job.timeout, job.created_at, job.started_at, job.progress, job.meta, job.payload

-- name: finished_columns
-- … and their names there, with the counters that an ending changes.
id, sequence, queue, type, key, priority, run_at, max_attempts, max_crashes, fence, timeout, created_at, started_at,
progress, meta, payload, attempts, crashes, endings

-- name: end
-- Apply the endings in `ending`, whose jobs are locked. Join by id, not by ctid: a job that changed while this
-- statement waited for its lock has a new ctid, which the snapshot of this statement does not contain.
updated as (
  update {schema}.jobs job
  set
    state = ending.state,
    is_ready = ending.state = 'queued' and ending.run_at <= {now},
    run_at = ending.run_at,
    attempts = ending.attempts,
    crashes = ending.crashes,
    token = null,
    worker = null,
    leased_until = null,
    cancel_requested = false,
    endings = ending.number,
    finished_at = case when ending.state = 'failed' then {now} end
  from ending
  where job.id = ending.id and ending.state <> 'cancelled'
),
removed as (
  delete from {schema}.jobs job
  using ending
  where job.id = ending.id and ending.state = 'cancelled'
  returning {moved_columns}, ending.attempts, ending.crashes, ending.number as endings
),
cancelled as (
  insert into {schema}.finished ({finished_columns}, state, finished_at)
  select {finished_columns}, 'cancelled', {now}
  from removed
),
history_added as (
  insert into {schema}.history (job, number, outcome, fence, token, worker, claimed_at, ended_at, error)
  select sequence, number, outcome, fence, token, worker, claimed_at, {now}, error
  from ending
),
history_trimmed as (
  delete from {schema}.history old
  using (
    select line.ctid
    from ending
    cross join lateral (
      select ctid
      from {schema}.history
      where job = ending.sequence and number = ending.number - {history_kept}
      offset 0
    ) line
  ) line
  where old.ctid = line.ctid
),
counted as (
  insert into {schema}.counts (minute_at, queue, event, number)
  select date_trunc('minute', {now}, 'UTC'), queue, outcome, count(*)
  from ending
  group by queue, outcome
)

-- name: stored
-- The stored row of a job that the caller does not hold.
select sequence, queue, state, fence, token from {schema}.jobs where id = missing.id
union all
select sequence, queue, state, fence, token from {schema}.finished where id = missing.id

-- name: is_held_by_missing
-- Whether the caller holds a job that the statement could not lock.
coalesce(stored.state = 'running' and stored.fence = missing.fence and stored.token = missing.token, false)

-- name: refused
-- Count rejected settlements of lost claims.
refused as (
  insert into {schema}.counts (minute_at, queue, event, number)
  select date_trunc('minute', {now}, 'UTC'), queue, 'refused', count(*)
  from unsettled
  where queue is not null and not is_busy
  group by queue
)

-- name: unsettled_positions
select json_build_array(
  coalesce(json_agg(number) filter (where not is_busy), '[]'), coalesce(json_agg(number) filter (where is_busy), '[]')
)
from unsettled

-- name: held_columns
-- The columns of a claim to reap …
job.id, job.sequence, job.queue, job.fence, job.token, job.worker, job.run_at, job.attempts, job.crashes,
job.max_attempts, job.max_crashes, job.cancel_requested, job.started_at, job.leased_until, job.endings

-- name: ending_columns
-- … and those that its ending keeps.
expired.id, expired.sequence, expired.queue, expired.fence, expired.token, expired.worker,
expired.run_at, expired.started_at as claimed_at, expired.leased_until, expired.endings + 1 as number

-- name: is_known
-- Whether the registry still has a row of the worker.
known.name = expired.worker
and known.shown_until > {now} - cast(:evidence_kept as bigint) * interval '1 microsecond'

-- name: leased_until_text
-- A timestamp as printed in an error.
replace(to_char(expired.leased_until at time zone 'UTC', 'YYYY-MM-DD"T"HH24:MI:SS.US"+00:00"'), '.000000', '')

-- name: claimed_at_text
replace(to_char(expired.started_at at time zone 'UTC', 'YYYY-MM-DD"T"HH24:MI:SS.US"+00:00"'), '.000000', '')

-- name: last_heartbeat
-- The last heartbeat of the worker, as printed in an error; null if the registry has no row of the worker.
case when known.name is not null then format(
  '; last heartbeat at %s (host ''%s'', pid %s)',
  replace(to_char(known.beat_at at time zone 'UTC', 'YYYY-MM-DD"T"HH24:MI:SS.US"+00:00"'), '.000000', ''),
  known.host, known.pid
) end

-- name: requested
-- The requested jobs, without duplicates.
requested as materialized (
  select id, number
  from unnest(cast(:ids as text[])) with ordinality as requested (id, number)
)

-- name: requested_jobs
-- The requested jobs in both tables, found by primary key. Within one statement a job is in one table only. The ctid is
-- null if another transaction has locked the row: the row appeared after `lock` had locked the jobs in order, and waiting
-- for it now could deadlock.
  select
    requested.id, requested.number, true as is_live, locked.ctid, job.state, job.cancel_requested, job.queue, job.key
  from requested
  cross join lateral (
    select ctid, state, cancel_requested, queue, key from {schema}.jobs where id = requested.id offset 0
  ) job
  left join lateral (
    select ctid from {schema}.jobs where ctid = job.ctid for update skip locked
  ) locked on true
  union all
  select requested.id, requested.number, false, locked.ctid, job.state, false, job.queue, job.key
  from requested
  cross join lateral (
    select ctid, state, queue, key from {schema}.finished where id = requested.id offset 0
  ) job
  left join lateral (
    select ctid from {schema}.finished where ctid = job.ctid for update skip locked
  ) locked on true

-- name: recorded_moves
-- Record the operator actions in `moved` in history and counts.
history_added as (
  insert into {schema}.history (job, number, outcome, fence, ended_at, error)
  select sequence, endings, 'operator', fence, {now}, :note
  from moved
),
history_trimmed as (
  delete from {schema}.history old
  using (
    select line.ctid
    from moved
    cross join lateral (
      select ctid
      from {schema}.history
      where job = moved.sequence and number = moved.endings - {history_kept}
      offset 0
    ) line
  ) line
  where old.ctid = line.ctid
),
counted as (
  insert into {schema}.counts (minute_at, queue, event, number)
  select date_trunc('minute', {now}, 'UTC'), queue, 'operator', count(*)
  from moved
  group by queue
)

-- name: history_deleted
-- Delete the history of the jobs in `deleted`, by ctid, so that the planner does not scan the whole table.
history_deleted as (
  delete from {schema}.history old
  using (
    select line.ctid
    from deleted
    cross join lateral (select ctid from {schema}.history where job = deleted.sequence offset 0) line
  ) line
  where old.ctid = line.ctid
)

-- name: before
-- Jobs that finished up to this time are purged.
{now} - cast(:older_than as bigint) * interval '1 microsecond'

-- name: empty_lanes
-- Every state but running has an index on queue and type; running jobs are few.
select lane.queue, lane.type
from {schema}.lanes lane
where
  (select true from {schema}.jobs where is_ready and queue = lane.queue and type = lane.type limit 1) is null
  and (
    select true
    from {schema}.jobs
    where state = 'queued' and not is_ready and queue = lane.queue and type = lane.type
    limit 1
  ) is null
  and (select true from {schema}.jobs where state = 'failed' and queue = lane.queue and type = lane.type limit 1) is null
  and (select true from {schema}.finished where queue = lane.queue and type = lane.type limit 1) is null
  and (lane.queue, lane.type) not in (select queue, type from {schema}.jobs where leased_until is not null)

-- name: worker
-- A worker of the registry, in the order of `rows.worker_of`; the number of jobs held follows.
known.name, known.host, known.pid, known.version, known.concurrency, known.queues, known.types, known.quiet_for,
known.started_at, known.beat_at
