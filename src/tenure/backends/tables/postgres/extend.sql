-- Extend leases, for their holders only; also in the caller's transaction.

-- name: extend
-- request: one JSON text, as in `settle.sql`. Return the transaction id, the isolation level, and for each claim
-- `held`, `cancel requested`, `lost`, `busy`, or `rejected` if the update had no effect; or null if the connection reaches a different table.
-- A lease is never shortened. Without new progress the old progress stays.
with
given as materialized (
  select
    sent.request,
    case when sent.request ->> 'table' is null then true else ({this_table}) = sent.request ->> 'table' end as is_here,
    coalesce(cast(sent.request ->> 'now' as timestamptz), statement_timestamp()) as now
  from (select cast(cast(:request as text) as json) as request) sent
),
requested as materialized (
  select
    {claim_keys}, claim.number, given.now, cast(claim.value ->> 'fence' as bigint) as requested_fence,
    claim.value ->> 'token' as requested_token, cast(claim.value ->> 'lease' as bigint) as lease,
    cast(coalesce(claim.value -> 'added', '{{}}') as jsonb) as added
  from given
  cross join lateral json_array_elements(given.request -> 'claims') with ordinality as claim (value, number)
  where given.is_here
),
locked as materialized (
  select
    {keys_of[requested]}, requested.number, requested.now, requested.requested_fence, requested.requested_token,
    requested.lease, requested.added, {roles_of[job]}
  from (
    select
      {keys_of[requested]}, requested.number, requested.now, requested.requested_fence, requested.requested_token,
      requested.lease, requested.added
    from requested
    order by {keys_of[requested]}
    offset 0
  ) requested
  cross join lateral (
    select
      {job_roles}
    from {home} job
    where {job_is[requested]}{and_has_row}
    for no key update{skip_locked}
  ) job
),
held as (
  select {keys_of[locked]}, locked.number, locked.now, locked.lease, locked.added, locked.leased_until, locked.record
  from locked
  where
    locked.state = 'running' and locked.fence = locked.requested_fence and locked.token = locked.requested_token
),
extended as (
  update {home} job
  set
    {leased_until} = (
      greatest(held.leased_until, held.now + held.lease * interval '1 microsecond'){lease_margin}
    ){zone[leased_until]},
    {record} = nullif(coalesce(held.record, '{{}}') || held.added, '{{}}')
  from held
  where {job_is[held]}
  returning
    held.number,
    case when held.record -> 'cancel_requested' = 'true' then 'cancel requested' else 'held' end as holding
)
select cast(
  case when given.is_here then json_build_array(
    cast(pg_current_xact_id() as text),
    current_setting('transaction_isolation'),
    (
      select json_agg(
        coalesce(
          extended.holding,
          case
            when {is_busy} then 'busy'
            when requested.number in (select held.number from held) then 'rejected'
            else 'lost'
          end
        )
        order by requested.number
      )
      from requested
      left join extended on extended.number = requested.number
    )
  ) end as text
)
from given;
