-- Fragments shared by several statements. A fragment may use the ones before it and those from `sql_templates.py`.
-- The user's conditions appear only where no CTE can shadow one of the user's tables: in the first CTE of a `with`, or
-- in a statement without CTEs.

-- name: now
-- The current time: the clock of the server, unless a test has set its own.
coalesce(cast(:now as timestamptz), statement_timestamp())

-- name: this_table
-- The identity of the table: its oid, its database and the system identifier of the server.
cast(cast({table_literal} as regclass) as oid)
|| ' in ' || (select known.oid from pg_catalog.pg_database known where known.datname = current_database())
|| ' of ' || (select control.system_identifier from pg_catalog.pg_control_system() control)

-- name: is_held
-- Whether the token holds more than :had rows.
(
  select count(*)
  from {home} held
  where held.{state} = {running} and held.{token} = :token
) > cast(:had as integer)

-- name: is_requested
-- Whether the request names the row.
({keys_of[job]}) in (select {key_names} from {requested_keys})

-- name: is_done
-- Whether `done_if` is true for the row.
exists (select from {rows} where {sidecar_is_row} and ({done_if}))

-- name: is_started
-- Whether a dead worker had started the row.
(cast(:all_started as boolean) or ({sidecar_key}) in (select {key_names} from {requested_keys}))

-- name: is_busy
-- Whether the table has the requested row, but another transaction has locked it.
(
  requested.number not in (select locked.number from locked)
  and exists (select from {home} job where {job_is[requested]}{and_has_row})
)

-- name: jobs mapped
-- All rows with a key, with their roles. state_value: the state as the table stores it; is_kept: the row is a job even
-- if `where` does not match.
select
  {row_keys}{row_sort_columns}, {alias}.{state} as state_value, {alias}.{state} as home_state_value,
  {row_roles},
  {row_user_roles}, ({where}) as matches_where, {alias}.{state} = {running} as is_kept
from {rows}
where true{has_key}

-- name: jobs sidecar
-- All rows with a key, with their roles, including rows without a sidecar row. state_value: the state, queued without a
-- sidecar row; home_state_value: the state in the sidecar, or null; is_kept: the sidecar has a row.
select
  {keys_of[user_row]}{sort_columns_of[user_row]}, coalesce(job.{state}, {queued}) as state_value,
  job.{state} as home_state_value,
  {roles_or_none},
  user_row.priority, user_row.created_at, user_row.matches_where, job.{state} is not null as is_kept
from (
  select {row_keys}{row_sort_columns}, {row_user_roles}, ({where}) as matches_where
  from {rows}
  where true{has_key}
) user_row
left join {home} job on {job_is[user_row]}

-- name: requested_jobs
-- The requested rows. `offset 0` makes the planner find them by key instead of scanning in order.
select
  {keys_of[job]}{sort_columns_of[job]}, job.state_value, job.home_state_value, {roles_of[job]}, job.priority,
  job.created_at, job.matches_where, job.is_kept
from ({jobs}) job
where {is_requested}
offset 0

-- name: job_json
-- A job as `rows.RowReader` decodes it, with the user's columns as `texts`. The record is a text, too: JSON that Python
-- cannot read would make the whole response unreadable.
json_build_array(
  {key_of[job]},
  {texts},
  job.state, job.attempts, job.crashes, job.fence, job.worker, job.leased_until, job.run_at, job.priority,
  job.created_at, job.started_at, job.completed_at, cast(job.record as text)
)

-- name: run_at_due
-- A row without `run_at` is due.
({home_alias}.{run_at} is null or {home_alias}.{run_at} <= ({now}){zone[run_at]})

-- name: is_taken
-- Whether the sidecar excludes a row from claims now.
exists (
  select
  from {home} {sidecar}
  where
    {sidecar_is_row}
    and not ({sidecar}.{state} = {queued} and ({sidecar}.{run_at} is null or {sidecar}.{run_at} <= ({now}){zone[run_at]}))
)

-- name: due mapped
from {rows}
where
  {alias}.{state} = {queued}
  and {run_at_due}
  and ({where}){has_key}

-- name: due sidecar
from {rows}
where
  ({where}){has_key}
  and not {is_taken}

-- name: due_since mapped
-- Since when a row is due: `run_at`, else `created_at`, else the earliest time.
coalesce(({alias}.{run_at}){zone[run_at]}, {row_created_at}, {earliest})

-- name: due_since sidecar
coalesce((select {sidecar}.{run_at} from {home} {sidecar} where {sidecar_is_row}), {row_created_at}, {earliest})

-- name: scheduled mapped
from {rows}
where {alias}.{state} = {queued} and {alias}.{run_at} > ({now}){zone[run_at]} and ({where})

-- name: scheduled sidecar
from {home} {sidecar}
where
  {sidecar}.{state} = {queued} and {sidecar}.{run_at} > {now}
  and exists (select from {rows} where {sidecar_is_row} and ({where}))

-- name: history_lines
-- The existing history; a history damaged by other code counts as empty.
case when jsonb_typeof(ended.record -> 'history') = 'array' then ended.record -> 'history' else '[]' end

-- name: new_record
-- The new record of a row whose claim `ended`, or that an operator moved. Adds a history line, unless the holder
-- completed the row. `kept` is the remaining part of the record, and the existing history lines.
nullif(
  kept.record
  || case when ended.outcome = 'completed' then '{{}}' else jsonb_build_object(
    'history',
    case when jsonb_array_length(kept.lines) >= {history_kept} then kept.lines - 0 else kept.lines end
    || jsonb_build_array(jsonb_build_array(
      ended.outcome, ended.fence, {iso[ended.now]}, ended.token, ended.worker, {iso[ended.started_at]}, ended.error
    ))
  ) end
  || case when ended.outcome <> 'completed' and jsonb_array_length(kept.lines) >= {history_kept} then jsonb_build_object(
    'dropped',
    case when jsonb_typeof(ended.record -> 'dropped') = 'number' then cast(ended.record ->> 'dropped' as numeric) else 0 end
    + 1
  ) else '{{}}' end
  || ended.added,
  '{{}}'
)

-- name: changed
-- Write the end of the claims in `ending`. Rows are joined by key, not by ctid: a row that changed while this statement
-- waited for its lock has a new ctid, which is not in the snapshot.
changed as (
  update {home} job
  set
    {state} = {state_literal[ending.state]},
    {leased_until} = null,
    {attempts} = ending.attempts,
    {crashes} = ending.crashes,
    {token} = case when ending.outcome = 'completed' then ending.token end,
    {worker} = case when ending.state = 'completed' then ending.worker end,
    {completed_at} = (case when ending.state <> 'queued' then ending.now end){zone[completed_at]},
    {run_at} = (ending.run_at){zone[run_at]},{set_error}
    {record} = ending.record
  from ending
  where {job_is[ending]}
  returning {keys_of[ending]}, ending.number, job.{state} is distinct from {running} as has_ended
)

-- name: ending_of_reaped
-- The new state and record of reaped rows.
ending as materialized (
  select
    {keys_of[ended]}, cast(null as bigint) as number, ended.now, ended.outcome, ended.state, ended.attempts,
    ended.crashes, ended.run_at, ended.fence, ended.token, ended.worker, ended.leased_until, ended.error,
    {new_record} as record
  from ended
  cross join lateral (
    select
      coalesce(ended.record, '{{}}') - 'cancel_requested' as record,
      {history_lines} as lines
  ) kept
)

-- name: found mapped
-- The requested rows that are jobs, locked in key order and read after locking.
found as materialized (
  select
    {row_keys},
    {row_roles},
    true as has_row
  from {rows}
  where
    ({row_key}) in (select {key_names} from {requested_keys})
    and {has_known_state}
    and (({where}) or {alias}.{state} = {running})
  order by {row_key_order}
  for no key update
)

-- name: found sidecar
-- The same with a sidecar table. Only sidecar rows are locked: a holder locks the sidecar row first and then writes to
-- the user's row, so locking in another order could deadlock.
user_row as materialized (
  select {row_keys}, ({where}) as matches_where
  from {rows}
  where ({row_key}) in (select {key_names} from {requested_keys})
),
locked as materialized (
  select
    {keys_of[user_row]},
    {job_roles}
  from user_row
  join {home} job on {job_is[user_row]}
  order by {keys_of[user_row]}
  for no key update of job
),
found as materialized (
  select
    {keys_of[user_row]}, coalesce(locked.state, 'queued') as state, coalesce(locked.fence, 0) as fence, locked.record,
    locked.key_1 is not null as has_row
  from user_row
  left join locked on {same_key[user_row, locked]}
  where case when locked.key_1 is null then user_row.matches_where else locked.state is not null end
)

-- name: ending_of_moved
-- The new record of moved rows.
ended as materialized (
  select
    {keys_of[found]}, {now} as now, 'operator' as outcome, found.state, found.has_row, found.fence, found.record,
    cast(null as text) as token, cast(null as text) as worker, cast(null as timestamptz) as started_at,
    cast(:note as text) as error, {added_by_move} as added
  from found
  where {is_movable}
),
ending as materialized (
  select {keys_of[ended]}, ended.now, ended.state, ended.has_row, ended.error, {new_record} as record
  from ended
  cross join lateral (
    select
      coalesce(ended.record, '{{}}') - {removed_by_move} as record,
      {history_lines} as lines
  ) kept
)

-- name: moved_by_cancel mapped
moved as (select {key_names} from changed)

-- name: moved_by_cancel sidecar
-- Insert sidecar rows where there are none yet. Another transaction may have inserted one first.
inserted as (
  insert into {home} as job ({keys}, {state}, {completed_at}, {error}, {record})
  select {key_names}, {cancelled}, now, error, record
  from ending
  where not has_row
  on conflict ({keys}) do nothing
  returning {job_keys}
),
moved as (
  select {key_names} from changed
  union all
  select {key_names} from inserted
)

-- name: user_rows_updated
-- Set the columns of `on_retry` in the user's table, if the home is a sidecar table.
user_rows_updated as (
  update {outer_rows}
  set {set_user_columns}
  from moved
  where {row_is[moved]}
)

-- name: answer_of_move
-- Return for each found row: its key, its old state, whether cancellation was requested, and whether the row moved.
-- If the old state allows the move but the row did not move, another transaction changed it meanwhile.
select coalesce(
  json_agg(json_build_array(
    {key_of[found]}, found.state, coalesce(found.record -> 'cancel_requested' = 'true', false),
    ({keys_of[found]}) in (select {key_names} from moved)
  )), '[]'
)
from found
