-- Check whether a claim may find jobs, and when.

-- name: poll
-- Return in how many seconds a claim may find jobs (0 or less: now; null: unknown), and the current time.
-- queues, types: null for all.
-- within: ignore leases that expire later; the index is full of dead entries of claims settled in time.
-- since: ignore leases that expired before this time, because the caller knows them; null for none. Older entries may
-- be dead entries that an old snapshot keeps from being removed, or a claim that its holder is settling in a long
-- transaction: that claim would be reported again and again although no transaction can reap it.
-- The limits keep the planner from reading more than the first job of a lane.
with
lane as materialized (
{lanes}
)
select json_build_array(
  case
    when exists (
      select
      from lane
      cross join lateral (
        select
        from {schema}.jobs job
        where job.is_ready and job.queue = lane.queue and job.type = lane.type
        order by -job.priority, job.run_at, job.sequence
        limit 1
      ) first
    ) then 0
    else extract(epoch from least(
      (
        select min(first.run_at)
        from lane
        cross join lateral (
          select job.run_at
          from {schema}.jobs job
          where job.state = 'queued' and not job.is_ready and job.queue = lane.queue and job.type = lane.type
          order by job.run_at, job.sequence
          limit 1
        ) first
      ),
      (
        select job.leased_until
        from {schema}.jobs job
        where
          job.leased_until > coalesce(cast(:since as timestamptz), '-infinity')
          and job.leased_until <= {now} + cast(:within as bigint) * interval '1 microsecond'
        order by job.leased_until, job.sequence
        limit 1
      )
    ) - {now})
  end,
  {now}
);
