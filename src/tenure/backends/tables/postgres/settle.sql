-- Settle claims, for their holders only; also in the caller's transaction.

-- name: settle
-- asked: one JSON text with the claims, without duplicate rows, and on the caller's connection the identity of the
-- table. Return the transaction id, the isolation level, and for each claim whether the settlement landed; or null if
-- the connection reaches a different table.
-- The rows are first locked by key, in key order; state, fence and token are compared after locking.
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
    claim.asked ->> 'token' as asked_token, claim.asked ->> 'outcome' as outcome, claim.asked ->> 'state' as asked_state,
    cast(claim.asked ->> 'attempts' as integer) as given_back, cast(claim.asked ->> 'delay' as bigint) as delay,
    claim.asked ->> 'error' as error, cast(coalesce(claim.asked -> 'added', '{{}}') as jsonb) as added
  from given
  cross join lateral json_array_elements(given.asked -> 'claims') with ordinality as claim (asked, number)
  where given.is_here
),
locked as materialized (
  select
    {keys_of[asked]}, asked.number, asked.now, asked.asked_fence, asked.asked_token, asked.outcome, asked.asked_state,
    asked.given_back, asked.delay, asked.error, asked.added, {roles_of[job]}
  from (
    select
      {keys_of[asked]}, asked.number, asked.now, asked.asked_fence, asked.asked_token, asked.outcome,
      asked.asked_state, asked.given_back, asked.delay, asked.error, asked.added
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
ended as materialized (
  select
    {keys_of[locked]}, locked.number, locked.now, locked.outcome, locked.error, locked.added, locked.fence,
    locked.token, locked.worker, locked.started_at, locked.crashes, locked.record,
    greatest(locked.attempts + locked.given_back, 0) as attempts, next.state,
    case
      when next.state = 'queued' and locked.delay is not null
        then locked.now + locked.delay * interval '1 microsecond'
      else locked.run_at
    end as run_at
  from locked
  cross join lateral (
    select
      case
        when locked.asked_state <> 'completed' and locked.record -> 'cancel_requested' = 'true' then 'cancelled'
        else locked.asked_state
      end as state
  ) next
  where
    locked.state = 'running' and locked.fence = locked.asked_fence and locked.token = locked.asked_token
),
ending as materialized (
  select
    {keys_of[ended]}, ended.number, ended.now, ended.outcome, ended.state, ended.attempts, ended.crashes, ended.run_at,
    ended.token, ended.worker, ended.error, {noted} as record
  from ended
  cross join lateral (
    select
      coalesce(ended.record, '{{}}')
      - case when ended.outcome = 'completed' then {of_an_end} else array['cancel_requested'] end as record,
      {lines} as lines
  ) kept
),
{changed},
landed as (
  select changed.number
  from changed
  where changed.has_ended
  union
  select locked.number
  from locked
  where
    case
      when locked.outcome = 'completed'
        then
          locked.state = 'completed' and locked.fence = locked.asked_fence and locked.token = locked.asked_token
          -- Otherwise other code wrote the state, and the claim was not completed.
          and locked.leased_until is null and locked.completed_at is not null
      else exists (
        select
        from jsonb_path_query(locked.record, '$.history[*]') as line
        where
          line ->> 0 = locked.outcome and line ->> 1 = cast(locked.asked_fence as text)
          and line ->> 3 = locked.asked_token
      )
    end
)
select cast(
  case when given.is_here then json_build_array(
    cast(pg_current_xact_id() as text),
    current_setting('transaction_isolation'),
    (
      select json_agg(landed.number is not null order by asked.number)
      from asked
      left join landed on landed.number = asked.number
    )
  ) end as text
)
from given;
