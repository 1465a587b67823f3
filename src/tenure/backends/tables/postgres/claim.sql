-- Claim due rows. `reap.sql` reaps expired claims first.
-- `for no key update` does not block inserts that reference the row by a foreign key.

-- name: take mapped
-- limit; worker; token; lease: in microseconds; had: the number of rows that the token already holds. Return whether
-- the token holds more rows (then nothing changes), the number of due rows found, and the claimed rows.
-- A row counts as claimed only if the user's triggers left its state and token unchanged.
-- The outer limit is never reached. It tells the planner that there are few rows, so the update uses the key index.
with
due as materialized (
  select {key_names}{turn_names}
  from (
    select {row_keys}{row_turns}
    {due}
      and not {is_held}
    order by {row_in_turn}
    limit :limit
    for no key update skip locked
  ) first
  limit {largest_batch}
),
taken as (
  update {rows_apart}
  set
    {state} = {running},
    {fence} = coalesce({apart}.{fence}, 0) + 1,
    {attempts} = coalesce({apart}.{attempts}, 0) + 1,
    {token} = :token,
    {worker} = :worker,
    {leased_until} = ({now} + cast(:lease as bigint) * interval '1 microsecond'){zone[leased_until]},
    {started_at} = ({now}){zone[started_at]},
    {completed_at} = null,
    {record} = nullif({apart_record} - {of_a_claim}, '{{}}')
  from due
  where {row_is[due]} and {apart}.{state} = {queued}
  returning
    {keys_of[due]}{turns_of[due]},
    {apart_roles},
    {apart_beside},
    {texts} as texts
)
select json_build_array(
  {is_held},
  (select count(*) from due),
  coalesce((
    select json_agg({shown_taken} order by {in_turn[job]})
    from taken job
    where job.state = 'running' and job.token = :token
  ), '[]')
);

-- name: take sidecar
-- The same with a sidecar table. Another transaction may have claimed a row after the snapshot of this statement and
-- released its lock: `on conflict … where` then sees the new state in the sidecar and skips the row. The user's columns
-- are read after the row is locked, and for locked rows only.
with
due as materialized (
  select {keys_of[first]}{turns_of[first]}, locked.priority, locked.created_at, locked.texts
  from (
    select {row_keys}{row_turns}
    {due}
      and not {is_held}
    order by {row_in_turn}
    limit :limit
    for no key update skip locked
  ) first
  cross join lateral (
    select
      {apart_beside},
      {texts} as texts
    from {rows_apart}
    where {row_is[first]}
    for no key update
  ) locked
  limit {largest_batch}
),
taken as (
  insert into {home} as job ({keys}, {state}, {fence}, {attempts}, {token}, {worker}, {leased_until}, {started_at})
  select
    {key_names}, {running}, 1, 1, :token, :worker, {now} + cast(:lease as bigint) * interval '1 microsecond', {now}
  from due
  on conflict ({keys}) do update
  set
    {state} = excluded.{state},
    {fence} = job.{fence} + 1,
    {attempts} = job.{attempts} + 1,
    {token} = excluded.{token},
    {worker} = excluded.{worker},
    {leased_until} = excluded.{leased_until},
    {started_at} = excluded.{started_at},
    {completed_at} = null,
    {record} = nullif({job_record} - {of_a_claim}, '{{}}')
  where job.{state} = {queued} and (job.{run_at} is null or job.{run_at} <= {now})
  returning
    {job_keys},
    {job_roles}
),
shown as (
  select
    {keys_of[due]}{turns_of[due]}, due.priority, due.created_at, due.texts, taken.state, taken.attempts, taken.crashes,
    taken.fence, taken.worker, taken.leased_until, taken.run_at, taken.started_at, taken.completed_at, taken.record
  from taken
  join due on {same_key[taken, due]}
)
select json_build_array(
  {is_held},
  (select count(*) from due),
  coalesce((select json_agg({shown_taken} order by {in_turn[job]}) from shown job), '[]')
);

-- name: held
-- Return the rows that a token holds.
select coalesce(json_agg({shown} order by {in_turn[job]}), '[]')
from ({jobs}) job
join {rows_apart} on {row_is[job]}
where job.word = {running} and job.token = :token;
