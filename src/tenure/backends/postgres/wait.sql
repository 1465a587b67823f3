-- Whether a claim may find something, and when it next may.

-- name: look
-- Answer in how many seconds a claim may find something, 0 or less for now, null if that is not known; and the present
-- moment.
-- queues, types: null for all. within: leases that run out later are not looked for; ahead lie the entries of all
-- claims that were settled in time. since: leases that ran out before are known to the caller, null for none. Behind
-- lie the entries that the server may not remove while somebody holds an old snapshot, and perhaps a claim whose holder
-- is ending it in a long transaction: it would be told again and again, and nobody could take it back.
-- The limits keep the planner from reading more than the first job of a line.
with
line as materialized (
{lines}
)
select json_build_array(
  case
    when exists (
      select
      from line
      cross join lateral (
        select
        from {schema}.jobs job
        where job.is_ready and job.queue = line.queue and job.type = line.type
        order by -job.priority, job.run_at, job.sequence
        limit 1
      ) first
    ) then 0
    else extract(epoch from least(
      (
        select min(first.run_at)
        from line
        cross join lateral (
          select job.run_at
          from {schema}.jobs job
          where job.state = 'queued' and not job.is_ready and job.queue = line.queue and job.type = line.type
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
