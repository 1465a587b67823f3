-- End claims by their holders. A statement never waits for a job that another transaction has locked: it skips the job
-- and returns its position as busy. A job that changed after the snapshot of the statement is busy as well.

-- name: lock
-- Lock the jobs in a fixed order, and wait for other transactions. Only the SQL functions do so, in the caller's
-- transaction; their next statement has a new snapshot and sees the locked jobs as they are. ids: all jobs of the request.
select count(*)
from (
  select
  from {schema}.jobs
  where id = any (cast(:ids as text[]))
  order by id
  for update
) locked;

-- name: complete
-- Move completed jobs to `finished`; return the positions of the lost claims, and of the busy ones.
with
requested as materialized (
  select id, fence, token, result, result_dropped, number
  from unnest(
    cast(:ids as text[]), cast(:fences as bigint[]), cast(:tokens as text[]), cast(:results as text[]),
    cast(:results_dropped as boolean[])
  ) with ordinality as requested (id, fence, token, result, result_dropped, number)
),
held as materialized (
  select job.ctid, requested.result, requested.result_dropped, requested.number
  from requested
  cross join lateral ({by_id} for update skip locked) job
  where job.state = 'running' and job.fence = requested.fence and job.token = requested.token
),
completed as (
  delete from {schema}.jobs job
  using held
  where job.ctid = held.ctid
  returning
    {moved_columns}, job.attempts, job.crashes, job.endings, job.worker, job.token, held.result, held.result_dropped,
    held.number as request_number
),
inserted as (
  insert into {schema}.finished ({finished_columns}, worker, token, result, result_dropped, state, finished_at)
  select {finished_columns}, worker, token, cast(result as json), result_dropped, 'completed', {now}
  from completed
),
counted as (
  insert into {schema}.counts (minute_at, queue, event, number)
  select date_trunc('minute', {now}, 'UTC'), queue, 'completed', count(*)
  from completed
  group by queue
),
unsettled as materialized (
  select missing.number, stored.queue, {is_held_by_missing} as is_busy
  from (
    select id, fence, token, number from requested where number not in (select request_number from completed)
  ) missing
  left join lateral ({stored}) stored on true
  where (stored.state = 'completed' and stored.fence = missing.fence and stored.token = missing.token) is not true
),
{refused}
{unsettled_positions};

-- name: end
-- End claims with any other outcome; return the positions of the lost claims, and of the busy ones.
with
requested as materialized (
  select id, fence, token, outcome, state, attempts, delay, error, number
  from unnest(
    cast(:ids as text[]), cast(:fences as bigint[]), cast(:tokens as text[]), cast(:outcomes as text[]),
    cast(:states as text[]), cast(:attempts as integer[]), cast(:delays as bigint[]), cast(:errors as text[])
  ) with ordinality as requested (id, fence, token, outcome, state, attempts, delay, error, number)
),
ending as materialized (
  select
    requested.id, job.sequence, job.queue, job.fence, job.token, job.worker, job.started_at as claimed_at,
    job.endings + 1 as number, requested.number as request_number, requested.outcome, requested.error, job.crashes,
    job.attempts + requested.attempts as attempts, next.state,
    case
      when next.state = 'queued' and requested.delay is not null then {now} + requested.delay * interval '1 microsecond'
      else job.run_at
    end as run_at
  from requested
  cross join lateral ({by_id} for update skip locked) job
  cross join lateral (select case when job.cancel_requested then 'cancelled' else requested.state end as state) next
  where job.state = 'running' and job.fence = requested.fence and job.token = requested.token
),
{end},
unsettled as materialized (
  select missing.number, stored.queue, {is_held_by_missing} as is_busy
  from (
    select id, fence, token, outcome, number from requested where number not in (select request_number from ending)
  ) missing
  left join lateral ({stored}) stored on true
  left join lateral (
    select true as has_ended
    from {schema}.history
    where
      job = stored.sequence and fence = missing.fence and token = missing.token and outcome = missing.outcome
    limit 1
  ) earlier on true
  where earlier.has_ended is null
),
{refused}
{unsettled_positions};

-- name: attempts
-- Return, for each claim, its position, the attempts used and allowed, and the outcome if the claim has already ended.
-- The SQL functions decide the outcome from these.
select coalesce(json_agg(json_build_array(requested.number, held.attempts, held.max_attempts, ended.outcome)), '[]')
from unnest(cast(:ids as text[]), cast(:fences as bigint[]), cast(:tokens as text[])) with ordinality as requested (
  id, fence, token, number
)
left join lateral (
  select job.attempts, job.max_attempts
  from ({by_id}) job
  where job.state = 'running' and job.fence = requested.fence and job.token = requested.token
) held on true
left join lateral (
  select line.outcome
  from (
    select sequence from {schema}.jobs where id = requested.id
    union all
    select sequence from {schema}.finished where id = requested.id
  ) stored
  join {schema}.history line on line.job = stored.sequence
  where line.fence = requested.fence and line.token = requested.token
  limit 1
) ended on true;
