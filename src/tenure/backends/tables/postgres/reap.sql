-- Reap claims. Rows locked by another transaction are skipped, so reaping never waits.
-- `done_if` is evaluated first: if it is true, the row is completed instead of requeued. The alias `{sidecar}` is that of
-- the home table, also if the home is the user's table: `done_if` sees the user's table under its own name.
-- A row whose key other code set to null has no id: it is not reaped.

-- name: expired
-- limit; token: change nothing if this token holds rows, null for none. Reap claims with an expired lease, the longest
-- expired first.
with
expired as materialized (
  select
    {sidecar_keys},
    {sidecar_roles},
    {is_done} as is_done
  from {home} {sidecar}
  where
    {sidecar}.{state} = {running} and {sidecar}.{leased_until} <= ({now}){zone[leased_until]}{sidecar_has_key}
    and not {is_held}{and_chosen_claims}
  order by {sidecar}.{leased_until}, {sidecar_key_order}
  limit :limit
  for no key update skip locked
),
ended as materialized (
  select
    {keys_of[expired]}, {now} as now, 'expired' as outcome, expired.fence, expired.token, expired.worker,
    expired.started_at, expired.leased_until, expired.run_at, expired.attempts, expired.crashes + 1 as crashes,
    expired.record,
    case
      {when_rejected}when expired.is_done then 'completed'
      when expired.record -> 'cancel_requested' = 'true' then 'cancelled'
      when {is_exhausted} then 'failed'
      else 'queued'
    end as state,
    case when expired.is_done then {recovered} else '{{}}' end as added,
    pg_catalog.format(
      'lease expired at %s; worker ''%s'' claimed the job at %s',
      {timestamp_text[expired.leased_until]}, expired.worker, {timestamp_text[expired.started_at]}
    ){and_rejection} as error
  from expired
),
{ending_of_reaped},
{changed}
select coalesce(
  json_agg(
    json_build_array(
      {key_of[ending]}, ending.state, coalesce(ending.worker, ''), ending.fence, changed.has_ended is true
    )
    order by ending.leased_until, {keys_of[ending]}
  ), '[]'
)
from ending
left join changed on {same_key[changed, ending]};

-- name: expired keys
-- limit. Return the keys of the expired claims, in the same order, without locking or changing them.
select coalesce(json_agg(expired.key), '[]')
from (
  select {sidecar_key_texts} as key
  from {home} {sidecar}
  where {sidecar}.{state} = {running} and {sidecar}.{leased_until} <= ({now}){zone[leased_until]}{sidecar_has_key}{and_chosen_claims}
  order by {sidecar}.{leased_until}, {sidecar_key_order}
  limit :limit{lock_expired_claims}
) expired;

-- name: keys of the worker
-- worker; limit. Return the keys of all claims of a worker.
select coalesce(json_agg(held.key), '[]')
from (
  select {sidecar_key_texts} as key
  from {home} {sidecar}
  where {sidecar}.{state} = {running} and {sidecar}.{worker} = :worker{sidecar_has_key}{and_chosen_claims}
  order by {sidecar}.{leased_until}, {sidecar_key_order}
  limit :limit
) held;

-- name: of the worker
-- Reap all claims of one worker, expired or not. key_1 …: the rows that the worker had started, if :all_started is
-- false; the other rows are released.
with
expired as materialized (
  select
    {sidecar_keys},
    {sidecar_roles},
    case when {is_started} then {is_done} else false end as is_done,
    {is_started} as is_started
  from {home} {sidecar}
  where {sidecar}.{state} = {running} and {sidecar}.{worker} = :worker{sidecar_has_key}{and_chosen_claims}
  order by {sidecar}.{leased_until}, {sidecar_key_order}
  limit :limit
  for no key update skip locked
),
ended as materialized (
  select
    {keys_of[expired]}, {now} as now, rule.outcome, expired.fence, expired.token, expired.worker, expired.started_at,
    expired.leased_until, expired.run_at, greatest(expired.attempts + rule.attempts, 0) as attempts,
    expired.crashes + rule.crashes as crashes, expired.record,
    case
      {when_rejected}when expired.is_started and expired.is_done then 'completed'
      when expired.record -> 'cancel_requested' = 'true' then 'cancelled'
      when expired.is_started and {is_exhausted} then 'failed'
      else 'queued'
    end as state,
    case when expired.is_started and expired.is_done then {recovered} else '{{}}' end as added,
    case when expired.is_started{or_rejected} then pg_catalog.format(
      'worker ''%s'' was reported dead; it claimed the job at %s',
      expired.worker, {timestamp_text[expired.started_at]}
    ) end{and_rejection} as error
  from expired
  cross join lateral (
    select 'expired' as outcome, 0 as attempts, 1 as crashes where expired.is_started
    union all
    select 'released', -1, 0 where not expired.is_started
  ) rule
),
{ending_of_reaped},
{changed}
select coalesce(
  json_agg(
    json_build_array(
      {key_of[ending]}, ending.state, coalesce(ending.worker, ''), ending.fence, changed.has_ended is true
    )
    order by ending.leased_until, {keys_of[ending]}
  ), '[]'
)
from ending
left join changed on {same_key[changed, ending]};
