-- What several statements share. Each part may name those before it, and what `wording.py` makes of the layout.
-- Conditions of the user's stand only where no other part of a statement can be taken for one of the user's tables: in
-- the first part of a `with`, which sees none of the others, or in a statement without one.

-- name: now
-- The present moment: the server's, unless a test has set another.
coalesce(cast(:now as timestamptz), statement_timestamp())

-- name: this_table
-- Which table this is, in which database of which server.
cast(cast({table_told} as regclass) as oid)
|| ' in ' || (select known.oid from pg_catalog.pg_database known where known.datname = current_database())
|| ' of ' || (select control.system_identifier from pg_catalog.pg_control_system() control)

-- name: is_held
-- Whether the token holds more rows than it :had.
(
  select count(*)
  from {home} held
  where held.{state} = {running} and held.{token} = :token
) > cast(:had as integer)

-- name: is_named
({keys_of[job]}) in (select {key_names} from {asked_keys})

-- name: is_done
-- Whether what the work of a row would leave is there.
exists (select from {rows} where {ours_is_row} and ({done_if}))

-- name: jobs mapped
-- Every row with its roles: is_chosen by `where`; is_kept, whatever `where` says of it now.
select
  {row_keys}{row_turns}, {alias}.{state} as word, {alias}.{state} as kept_word,
  {row_roles},
  {row_beside}, ({where}) as is_chosen, {alias}.{state} = {running} as is_kept
from {rows}

-- name: jobs sidecar
-- Every row with its roles, and those that the companion has not seen yet: is_chosen by `where`; is_kept, by the
-- companion.
select
  {keys_of[chosen]}{turns_of[chosen]}, coalesce(job.{state}, {queued}) as word, job.{state} as kept_word,
  {roles_or_none},
  chosen.priority, chosen.created_at, chosen.is_chosen, job.{state} is not null as is_kept
from (select {row_keys}{row_turns}, {row_beside}, ({where}) as is_chosen from {rows}) chosen
left join {home} job on {job_is[chosen]}

-- name: jobs_named
-- Those that are asked for, found by their keys: all that come before them in the order are not to be walked.
select
  {keys_of[job]}{turns_of[job]}, job.word, job.kept_word, {roles_of[job]}, job.priority, job.created_at, job.is_chosen,
  job.is_kept
from ({jobs}) job
where {is_named}
offset 0

-- name: shown
-- A job as `rows.job_of` reads it; the user's columns are beside it.
json_build_array(
  {key_of[job]},
  {texts},
  job.state, job.attempts, job.crashes, job.fence, job.worker, job.leased_until, job.run_at, job.priority,
  job.created_at, job.started_at, job.completed_at, job.record
)

-- name: run_at_due
-- A row that has no moment of its own is due since ever.
({held_by}.{run_at} is null or {held_by}.{run_at} <= ({now}){zone[run_at]})

-- name: is_taken
-- Whether the companion says that a row is not to be claimed now.
exists (
  select
  from {home} {ours}
  where
    {ours_is_row}
    and not ({ours}.{state} = {queued} and ({ours}.{run_at} is null or {ours}.{run_at} <= ({now}){zone[run_at]}))
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
-- Since when a row is due; without a moment of its own since it came, or ever.
coalesce(({alias}.{run_at}){zone[run_at]}, {row_created_at}, {ever})

-- name: due_since sidecar
coalesce((select {ours}.{run_at} from {home} {ours} where {ours_is_row}), {row_created_at}, {ever})

-- name: scheduled mapped
from {rows}
where {alias}.{state} = {queued} and {alias}.{run_at} > ({now}){zone[run_at]} and ({where})

-- name: scheduled sidecar
from {home} {ours}
where
  {ours}.{state} = {queued} and {ours}.{run_at} > {now}
  and exists (select from {rows} where {ours_is_row} and ({where}))

-- name: lines
-- The lines of a history so far; what another hand has damaged counts as nothing.
case when jsonb_typeof(ended.record -> 'history') = 'array' then ended.record -> 'history' else '[]' end

-- name: noted
-- What is remembered of a row whose claim `ended`, or that an operator moved: with one more line in its history, unless
-- it was completed by its holder. `kept` is what of the record stays, and the lines so far.
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
-- End the claims that stand in `ending`. Rows are found by their keys: one that changed while it was being locked has
-- another place, which this statement cannot see.
changed as (
  update {home} job
  set
    {state} = {word[ending.state]},
    {leased_until} = null,
    {attempts} = ending.attempts,
    {crashes} = ending.crashes,
    {token} = case when ending.outcome = 'completed' then ending.token end,
    {worker} = case when ending.state = 'completed' then ending.worker end,
    {completed_at} = (case when ending.state <> 'queued' then ending.now end){zone[completed_at]},
    {run_at} = (ending.run_at){zone[run_at]},{error_told}
    {record} = ending.record
  from ending
  where {job_is[ending]}
  returning {keys_of[ending]}, ending.number, job.{state} is distinct from {running} as has_ended
)

-- name: ending_of_reaped
-- What becomes of the rows that were taken back, with what is remembered of them.
ending as materialized (
  select
    {keys_of[ended]}, cast(null as bigint) as number, ended.now, ended.outcome, ended.state, ended.attempts,
    ended.crashes, ended.run_at, ended.fence, ended.token, ended.worker, ended.leased_until, ended.error,
    {noted} as record
  from ended
  cross join lateral (
    select
      coalesce(ended.record, '{{}}') - 'cancel_requested' as record,
      {lines} as lines
  ) kept
)

-- name: found mapped
-- The rows that are named and are jobs, locked in one order, as they are then.
found as materialized (
  select
    {row_keys},
    {row_roles},
    true as has_row
  from {rows}
  where
    ({row_key}) in (select {key_names} from {asked_keys})
    and {is_in_words}
    and (({where}) or {alias}.{state} = {running})
  order by {row_in_order}
  for no key update
)

-- name: found sidecar
-- The same with a companion. Only its rows are locked: a holder may have locked them, and be about to write to the user's.
chosen as materialized (
  select {row_keys}, ({where}) as is_chosen
  from {rows}
  where ({row_key}) in (select {key_names} from {asked_keys})
),
locked as materialized (
  select
    {keys_of[chosen]},
    {job_roles}
  from chosen
  join {home} job on {job_is[chosen]}
  order by {keys_of[chosen]}
  for no key update of job
),
found as materialized (
  select
    {keys_of[chosen]}, coalesce(locked.state, 'queued') as state, coalesce(locked.fence, 0) as fence, locked.record,
    locked.key_1 is not null as has_row
  from chosen
  left join locked on {same_key[chosen, locked]}
  where case when locked.key_1 is null then chosen.is_chosen else locked.state is not null end
)

-- name: ending_of_moved
-- What is remembered of the rows that are moved.
ended as materialized (
  select
    {keys_of[found]}, {now} as now, 'operator' as outcome, found.state, found.has_row, found.fence, found.record,
    cast(null as text) as token, cast(null as text) as worker, cast(null as timestamptz) as started_at,
    cast(:note as text) as error, {added_by_move} as added
  from found
  where {is_movable}
),
ending as materialized (
  select {keys_of[ended]}, ended.now, ended.state, ended.has_row, ended.error, {noted} as record
  from ended
  cross join lateral (
    select
      coalesce(ended.record, '{{}}') - {gone_by_move} as record,
      {lines} as lines
  ) kept
)

-- name: moved_by_cancel mapped
moved as (select {key_names} from changed)

-- name: moved_by_cancel sidecar
-- Rows that the companion has not seen yet get one of their own. Somebody else may have been first.
made as (
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
  select {key_names} from made
)

-- name: touched
-- Set what a retry sets in the user's table, if the home is another.
touched as (
  update {rows_apart}
  set {set_beside}
  from moved
  where {row_is[moved]}
)

-- name: answer_of_move
-- For each row that is there: its key, the state that it was in, whether a cancel was asked for, and whether it moved.
-- One that the state allows to move and that did not was changed by somebody else meanwhile.
select coalesce(
  json_agg(json_build_array(
    {key_of[found]}, found.state, coalesce(found.record -> 'cancel_requested' = 'true', false),
    ({keys_of[found]}) in (select {key_names} from moved)
  )), '[]'
)
from found
