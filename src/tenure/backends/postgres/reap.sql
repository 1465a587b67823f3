-- Reap claims. Jobs locked by another transaction are skipped, so that no transaction waits.

-- name: expired
-- Reap claims whose lease expired, the longest expired first. limit: maximum number of claims. token: if this token
-- holds jobs, change nothing.
with
expired as materialized (
  select {held_columns}
  from {schema}.jobs job
  where job.leased_until <= {now} and not exists (select from {schema}.jobs where token = :token)
  order by job.leased_until, job.sequence
  limit :limit
  for update skip locked
),
ending as materialized (
  select
    {ending_columns}, 'expired' as outcome, expired.attempts, expired.crashes + 1 as crashes,
    case
      when expired.cancel_requested then 'cancelled'
      when expired.attempts >= expired.max_attempts or expired.crashes + 1 >= expired.max_crashes then 'failed'
      else 'queued'
    end as state,
    format(
      'lease expired at %s; worker ''%s'' claimed the job at %s%s',
      {leased_until_text}, expired.worker, {claimed_at_text}, {last_heartbeat}
    ) as error
  from expired
  left join {schema}.workers known on {is_known}
),
{end}
select coalesce(
  json_agg(json_build_array(id, state, worker, fence) order by leased_until, sequence), '[]'
)
from ending;

-- name: of the worker
-- Reap the claims of one worker, expired or not. started: ids of the jobs that the worker had started, null for all;
-- the remaining jobs are released.
with
expired as materialized (
  select {held_columns}
  from {schema}.jobs job
  where job.leased_until is not null and job.worker = :worker
  order by job.leased_until, job.sequence
  limit :limit
  for update skip locked
),
ending as materialized (
  select
    {ending_columns}, rule.outcome, expired.attempts + rule.attempts as attempts,
    expired.crashes + rule.crashes as crashes,
    case
      when expired.cancel_requested then 'cancelled'
      when
        rule.outcome = 'expired'
        and (expired.attempts >= expired.max_attempts or expired.crashes + 1 >= expired.max_crashes)
        then 'failed'
      else 'queued'
    end as state,
    case when rule.outcome = 'expired' then format(
      'worker ''%s'' was reported dead; it claimed the job at %s%s',
      expired.worker, {claimed_at_text}, {last_heartbeat}
    ) end as error
  from expired
  left join {schema}.workers known on {is_known}
  cross join lateral (
    select 'expired' as outcome, 0 as attempts, 1 as crashes
    where cast(:started as text[]) is null or expired.id = any (cast(:started as text[]))
    union all
    select 'released', -1, 0
    where not (cast(:started as text[]) is null or expired.id = any (cast(:started as text[])))
  ) rule
),
{end}
select coalesce(
  json_agg(json_build_array(id, state, worker, fence) order by leased_until, sequence), '[]'
)
from ending;
