-- Settle claims, for their holders only; also in the caller's transaction.

-- name: settle
-- request: one JSON text with the claims, without duplicate rows, and on the caller's connection the identity of the
-- table. Return the transaction id, the isolation level, and for each claim `landed`, `lost`, `busy`, or `rejected` if the
-- update had no effect; or null if the connection reaches a different table.
-- The rows are first locked by key, in key order; state, fence and token are compared after locking. On the store's own
-- connection, the statement skips rows that another transaction has locked: they are busy.
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
    claim.value ->> 'token' as requested_token, claim.value ->> 'outcome' as outcome,
    claim.value ->> 'state' as requested_state,
    cast(claim.value ->> 'attempts' as integer) as attempts_change, cast(claim.value ->> 'delay' as bigint) as delay,
    claim.value ->> 'error' as error, cast(coalesce(claim.value -> 'added', '{{}}') as jsonb) as added
  from given
  cross join lateral json_array_elements(given.request -> 'claims') with ordinality as claim (value, number)
  where given.is_here
),
locked as materialized (
  select
    {keys_of[requested]}, requested.number, requested.now, requested.requested_fence, requested.requested_token,
    requested.outcome, requested.requested_state, requested.attempts_change, requested.delay, requested.error,
    requested.added, {roles_of[job]}
  from (
    select
      {keys_of[requested]}, requested.number, requested.now, requested.requested_fence, requested.requested_token,
      requested.outcome, requested.requested_state, requested.attempts_change, requested.delay, requested.error,
      requested.added
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
ended as materialized (
  select
    {keys_of[locked]}, locked.number, locked.now, locked.outcome, locked.error, locked.added, locked.fence,
    locked.token, locked.worker, locked.started_at, locked.crashes, locked.record,
    greatest(locked.attempts + locked.attempts_change, 0) as attempts, next.state,
    case
      when next.state = 'queued' and locked.delay is not null
        then locked.now + locked.delay * interval '1 microsecond'
      else locked.run_at
    end as run_at
  from locked
  cross join lateral (
    select
      case
        when locked.requested_state <> 'completed' and locked.record -> 'cancel_requested' = 'true' then 'cancelled'
        else locked.requested_state
      end as state
  ) next
  where
    locked.state = 'running' and locked.fence = locked.requested_fence and locked.token = locked.requested_token
),
ending as materialized (
  select
    {keys_of[ended]}, ended.number, ended.now, ended.outcome, ended.state, ended.attempts, ended.crashes, ended.run_at,
    ended.token, ended.worker, ended.error, {new_record} as record
  from ended
  cross join lateral (
    select
      coalesce(ended.record, '{{}}')
      - case when ended.outcome = 'completed' then {completion_record_keys} else array['cancel_requested'] end as record,
      {history_lines} as lines
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
          locked.state = 'completed' and locked.fence = locked.requested_fence and locked.token = locked.requested_token
          -- Otherwise other code wrote the state, and the claim was not completed.
          and locked.leased_until is null and locked.completed_at is not null
      else exists (
        select
        from jsonb_path_query(locked.record, '$.history[*]') as line
        where
          line ->> 0 = locked.outcome and line ->> 1 = cast(locked.requested_fence as text)
          and line ->> 3 = locked.requested_token
      )
    end
)
select cast(
  case when given.is_here then json_build_array(
    cast(pg_current_xact_id() as text),
    current_setting('transaction_isolation'),
    (
      select json_agg(
        case
          when landed.number is not null then 'landed'
          when {is_busy} then 'busy'
          when requested.number in (select ended.number from ended) then 'rejected'
          else 'lost'
        end
        order by requested.number
      )
      from requested
      left join landed on landed.number = requested.number
    )
  ) end as text
)
from given;
