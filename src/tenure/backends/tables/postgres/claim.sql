-- Claim due rows. `reap.sql` reaps expired claims first.
-- `for no key update` does not block inserts that reference the row by a foreign key.

-- name: take mapped
-- limit; worker; token; lease: in microseconds; had: the number of rows that the token already holds. Return whether
-- the token holds more rows (then nothing changes), the keys of due rows that were not claimed, and the claimed rows.
-- A row counts as claimed only if the user's triggers left its state and token unchanged.
-- The outer limit is never reached. It tells the planner that there are few rows, so the update uses the key index.
with
due as materialized (
  select {key_names}{sort_names}
  from (
    select {row_keys}{row_sort_columns}
    {due}
      and not {is_held}{and_chosen_rows}
    order by {row_claim_order}
    limit :limit
    for no key update skip locked
  ) first
  limit {largest_batch}
),
taken as (
  update {outer_rows}
  set
    {state} = {running},
    {fence} = coalesce({outer}.{fence}, 0) + 1,
    {attempts} = coalesce({outer}.{attempts}, 0) + 1,
    {token} = :token,
    {worker} = :worker,
    {leased_until} = ({now} + cast(:lease as bigint) * interval '1 microsecond'{lease_margin}){zone[leased_until]},
    {started_at} = ({now}){zone[started_at]},
    {completed_at} = null,
    {record} = nullif({outer_record} - {claim_record_keys}, '{{}}')
  from due
  where {row_is[due]} and {outer}.{state} = {queued}
  returning
    {keys_of[due]}{sort_columns_of[due]},
    {outer_roles},
    {outer_user_roles},
    {texts} as texts
)
select json_build_array(
  {is_held},
  (
    select coalesce(json_agg({key_of[due]}), '[]')
    from due
    where ({keys_of[due]}) not in (
      select {keys_of[taken]} from taken where taken.state = 'running' and taken.token = :token
    )
  ),
  coalesce((
    select json_agg({taken_job_json} order by {claim_order_of[job]})
    from taken job
    where job.state = 'running' and job.token = :token
  ), '[]')
);

-- name: take sidecar
-- The same with a sidecar table. Rows without a sidecar row get one; the other sidecar rows are updated, except those
-- that another transaction has locked (`free`). Another transaction may have claimed a row after the snapshot of this
-- statement and released its lock: the insert or the update then sees the new sidecar row and skips the row. The user's
-- columns are read after the row is locked, and for locked rows only.
with
due as materialized (
  select {keys_of[first]}{sort_columns_of[first]}, locked.priority, locked.created_at, locked.texts
  from (
    select {row_keys}{row_sort_columns}
    {due}
      and not {is_held}{and_chosen_rows}
    order by {row_claim_order}
    limit :limit
    for no key update skip locked
  ) first
  cross join lateral (
    select
      {outer_user_roles},
      {texts} as texts
    from {outer_rows}
    where {row_is[first]}
    for no key update
  ) locked
  limit {largest_batch}
),
inserted as (
  insert into {home} as job ({keys}, {state}, {fence}, {attempts}, {token}, {worker}, {leased_until}, {started_at})
  select
    {key_names}, {running}, 1, 1, :token, :worker, {now} + cast(:lease as bigint) * interval '1 microsecond', {now}
  from due
  on conflict ({keys}) do nothing
  returning
    {job_keys},
    {job_roles}
),
free as materialized (
  select {keys_of[due]}
  from due
  cross join lateral (select from {home} job where {job_is[due]} for no key update skip locked) job
  where ({keys_of[due]}) not in (select {keys_of[inserted]} from inserted)
),
updated as (
  update {home} job
  set
    {state} = {running},
    {fence} = job.{fence} + 1,
    {attempts} = job.{attempts} + 1,
    {token} = :token,
    {worker} = :worker,
    {leased_until} = {now} + cast(:lease as bigint) * interval '1 microsecond',
    {started_at} = {now},
    {completed_at} = null,
    {record} = nullif({job_record} - {claim_record_keys}, '{{}}')
  from free
  where {job_is[free]} and job.{state} = {queued} and (job.{run_at} is null or job.{run_at} <= {now})
  returning
    {job_keys},
    {job_roles}
),
taken as (
  select {keys_of[inserted]}, {roles_of[inserted]}
  from inserted
  union all
  select {keys_of[updated]}, {roles_of[updated]}
  from updated
),
claimed as (
  select
    {keys_of[due]}{sort_columns_of[due]}, due.priority, due.created_at, due.texts, taken.state, taken.attempts,
    taken.crashes, taken.fence, taken.worker, taken.leased_until, taken.run_at, taken.started_at, taken.completed_at,
    taken.record
  from taken
  join due on {same_key[taken, due]}
)
select json_build_array(
  {is_held},
  (
    select coalesce(json_agg({key_of[due]}), '[]')
    from due
    where ({keys_of[due]}) not in (select {keys_of[claimed]} from claimed)
  ),
  coalesce((select json_agg({taken_job_json} order by {claim_order_of[job]}) from claimed job), '[]')
);

-- name: due keys
-- limit. Return the keys of the first due rows, except rows that another transaction has locked.
select coalesce(json_agg(first.key), '[]')
from (
  select {key_of_row} as key
  {due}{and_chosen_rows}
  order by {row_claim_order}
  limit :limit{lock_due_rows}
) first;

-- name: held
-- Return the rows that a token holds.
select coalesce(json_agg({job_json} order by {claim_order_of[job]}), '[]')
from ({jobs}) job
join {outer_rows} on {row_is[job]}
where job.state_value = {running} and job.token = :token;
