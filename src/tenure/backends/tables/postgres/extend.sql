-- Extend leases, for their holders only; also in the caller's transaction.

-- name: extend
-- asked: one JSON text, as in `settle.sql`. Return the transaction id, the isolation level, and for each claim `held`,
-- `cancel requested` or `lost`; or null if the connection reaches a different table.
-- A lease is never shortened. Without new progress the old progress stays.
with
given as materialized (
  select
    told.asked,
    case when told.asked ->> 'table' is null then true else ({this_table}) = told.asked ->> 'table' end as is_here,
    coalesce(cast(told.asked ->> 'now' as timestamptz), statement_timestamp()) as now
  from (select cast(cast(:asked as text) as json) as asked) told
),
asked as materialized (
  select
    {claim_keys}, claim.number, given.now, cast(claim.asked ->> 'fence' as bigint) as asked_fence,
    claim.asked ->> 'token' as asked_token, cast(claim.asked ->> 'lease' as bigint) as lease,
    cast(coalesce(claim.asked -> 'added', '{{}}') as jsonb) as added
  from given
  cross join lateral json_array_elements(given.asked -> 'claims') with ordinality as claim (asked, number)
  where given.is_here
),
locked as materialized (
  select
    {keys_of[asked]}, asked.number, asked.now, asked.asked_fence, asked.asked_token, asked.lease, asked.added,
    {roles_of[job]}
  from (
    select
      {keys_of[asked]}, asked.number, asked.now, asked.asked_fence, asked.asked_token, asked.lease, asked.added
    from asked
    order by {keys_of[asked]}
    offset 0
  ) asked
  cross join lateral (
    select
      {job_roles}
    from {home} job
    where {job_is[asked]}{and_has_row}
    for no key update
  ) job
),
extended as (
  update {home} job
  set
    {leased_until} = (
      greatest(locked.leased_until, locked.now + locked.lease * interval '1 microsecond')
    ){zone[leased_until]},
    {record} = nullif(coalesce(locked.record, '{{}}') || locked.added, '{{}}')
  from locked
  where
    {job_is[locked]} and locked.state = 'running' and locked.fence = locked.asked_fence
    and locked.token = locked.asked_token
  returning
    locked.number,
    case when locked.record -> 'cancel_requested' = 'true' then 'cancel requested' else 'held' end as holding
)
select cast(
  case when given.is_here then json_build_array(
    cast(pg_current_xact_id() as text),
    current_setting('transaction_isolation'),
    (
      select json_agg(coalesce(extended.holding, 'lost') order by asked.number)
      from asked
      left join extended on extended.number = asked.number
    )
  ) end as text
)
from given;
