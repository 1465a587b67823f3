-- Claim due jobs: promote scheduled jobs that became due, then take the first jobs of all lanes. `reap.sql` reaps
-- expired leases before. A lane is a queue and type; `lane` holds the lanes to claim from. Lanes are few, jobs are
-- many.

-- name: promote
-- Promote jobs that became due in the requested lanes, the oldest first.
-- queues, types: null for all. limit: maximum number of jobs. token: if this token holds jobs, change nothing.
with
lane as materialized (
{lanes}
),
came_due as materialized (
  select first.ctid
  from lane
  cross join lateral (
    select job.ctid, job.run_at, job.sequence
    from {schema}.jobs job
    where
      job.state = 'queued' and not job.is_ready and job.queue = lane.queue and job.type = lane.type
      and job.run_at <= {now}
    order by job.run_at, job.sequence
    limit :limit
  ) first
  where not exists (select from {schema}.jobs where token = :token)
  order by first.run_at, first.sequence
  limit :limit
),
locked as materialized (
  select locked_row.ctid
  from came_due
  cross join lateral (
    select job.ctid
    from {schema}.jobs job
    where job.ctid = came_due.ctid and job.state = 'queued' and not job.is_ready
    for update skip locked
  ) locked_row
)
update {schema}.jobs job
set is_ready = true
from locked
where job.ctid = locked.ctid;

-- name: take
-- Take the first ready jobs. Return whether the token holds more jobs than :had (then nothing changed), whether a lane
-- was cut off, the end and the start of the leases, and the columns of the jobs, the last being the sequence.
-- Each lane is scanned from the position in the hint, for at most :most jobs. If a lane has more, jobs that sort after
-- its last scanned job are not taken: an unscanned job of that lane could come before them.
-- Jobs are locked one by one until the limit is reached, if still ready and not locked by another transaction, and
-- joined by ctid, one to one. So no query plan can take more jobs than requested.
with
at as (
  select queue, type, rank, run_at, sequence
  from unnest(
    cast(:at_queues as text[]), cast(:at_types as text[]), cast(:at_ranks as integer[]),
    cast(:at_run_ats as timestamptz[]), cast(:at_sequences as bigint[])
  ) as at (queue, type, rank, run_at, sequence)
),
lane as materialized (
{lanes}
),
candidate as materialized (
  select next.ctid, next.rank, next.run_at, next.sequence, next.number
  from lane
  left join at on at.queue = lane.queue and at.type = lane.type
  cross join lateral (
    select
      ready.ctid, ready.rank, ready.run_at, ready.sequence,
      row_number() over (order by ready.rank, ready.run_at, ready.sequence) as number
    from (
      select job.ctid, -job.priority as rank, job.run_at, job.sequence
      from {schema}.jobs job
      where
        job.is_ready and job.queue = lane.queue and job.type = lane.type
        and (-job.priority, job.run_at, job.sequence)
          > (coalesce(at.rank, -32768), coalesce(at.run_at, '-infinity'), coalesce(at.sequence, 0))
      order by -job.priority, job.run_at, job.sequence
      limit :most
    ) ready
  ) next
),
edge as (
  select rank, run_at, sequence
  from candidate
  where number = :most
  order by rank, run_at, sequence
  limit 1
),
due as materialized (
  select locked_row.ctid
  from (
    select candidate.ctid
    from candidate
    where
      (select count(*) from {schema}.jobs where token = :token) <= cast(:had as integer)
      and not exists (
        select
        from edge
        where (edge.rank, edge.run_at, edge.sequence) < (candidate.rank, candidate.run_at, candidate.sequence)
      )
    order by candidate.rank, candidate.run_at, candidate.sequence
  ) next
  cross join lateral (
    select job.ctid
    from {schema}.jobs job
    where job.ctid = next.ctid and job.is_ready
    for update skip locked
  ) locked_row
  limit :limit
),
taken as (
  update {schema}.jobs job
  set
    state = 'running',
    is_ready = false,
    fence = job.fence + 1,
    attempts = job.attempts + 1,
    token = :token,
    worker = :worker,
    leased_until = {now} + cast(:lease as bigint) * interval '1 microsecond',
    started_at = {now},
    progress = null
  from due
  where job.ctid = due.ctid
  returning {taken}
),
counted as (
  insert into {schema}.counts (minute_at, queue, event, number)
  select date_trunc('minute', {now}, 'UTC'), queue, 'claimed', count(*)
  from taken
  group by queue
)
select json_build_array(
  (select count(*) from {schema}.jobs where token = :token) > cast(:had as integer),
  exists (select from edge),
  {now} + cast(:lease as bigint) * interval '1 microsecond',
  {now},
  (select json_build_array({taken_columns}) from (select * from taken order by -priority, run_at, sequence) taken)
);

-- name: held
-- Return the jobs that a token holds.
select coalesce(
  json_agg(json_build_array({live}) order by -job.priority, job.run_at, job.sequence), '[]'
)
from {schema}.jobs job
where job.token = :token;
