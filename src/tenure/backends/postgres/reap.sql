-- Take claims back. A job that somebody else is ending is passed over, so that nobody waits.

-- name: expired
-- limit; token: of one that holds jobs, nothing is changed. Those whose lease ran out, the longest expired first.
with
expired as materialized (
  select {held}
  from {schema}.jobs job
  where job.leased_until <= {now} and not exists (select from {schema}.jobs where token = :token)
  order by job.leased_until, job.sequence
  limit :limit
  for update skip locked
),
ending as materialized (
  select
    {ending}, 'expired' as outcome, expired.attempts, expired.crashes + 1 as crashes,
    case
      when expired.cancel_requested then 'cancelled'
      when expired.attempts >= expired.max_attempts or expired.crashes + 1 >= expired.max_crashes then 'failed'
      else 'queued'
    end as state,
    format(
      'the lease ran out at %s; worker ''%s'' had claimed the job at %s%s',
      {leased_until_shown}, expired.worker, {claimed_at_shown}, {last_sign}
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
-- Those of one worker, run out or not. started: the ids of those that it had begun, null for all; the others are
-- released.
with
expired as materialized (
  select {held}
  from {schema}.jobs job
  where job.leased_until is not null and job.worker = :worker
  order by job.leased_until, job.sequence
  limit :limit
  for update skip locked
),
ending as materialized (
  select
    {ending}, begun.outcome, expired.attempts + begun.attempts as attempts, expired.crashes + begun.crashes as crashes,
    case
      when expired.cancel_requested then 'cancelled'
      when
        begun.outcome = 'expired'
        and (expired.attempts >= expired.max_attempts or expired.crashes + 1 >= expired.max_crashes)
        then 'failed'
      else 'queued'
    end as state,
    case when begun.outcome = 'expired' then format(
      'worker ''%s'' was said to be dead; it had claimed the job at %s%s',
      expired.worker, {claimed_at_shown}, {last_sign}
    ) end as error
  from expired
  left join {schema}.workers known on {is_known}
  cross join lateral (
    select 'expired' as outcome, 0 as attempts, 1 as crashes
    where cast(:started as text[]) is null or expired.id = any (cast(:started as text[]))
    union all
    select 'released', -1, 0
    where not (cast(:started as text[]) is null or expired.id = any (cast(:started as text[])))
  ) begun
),
{end}
select coalesce(
  json_agg(json_build_array(id, state, worker, fence) order by leased_until, sequence), '[]'
)
from ending;
