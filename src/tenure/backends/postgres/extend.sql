-- Extend leases. The statement skips jobs that another transaction has locked, as in `settle.sql`.

-- name: extend
-- Extend only leases that the caller holds, and never shorten a lease. A null progress keeps the stored progress.
-- Return, for each extended claim, its position in the request and whether a cancel is requested; and the positions of
-- the busy ones.
with
requested as materialized (
  select id, fence, token, lease, progress, number
  from unnest(
    cast(:ids as text[]), cast(:fences as bigint[]), cast(:tokens as text[]), cast(:leases as bigint[]),
    cast(:progress as text[])
  ) with ordinality as requested (id, fence, token, lease, progress, number)
),
held as materialized (
  select job.ctid, requested.lease, requested.progress, requested.number
  from requested
  cross join lateral ({by_id} for update skip locked) job
  where job.state = 'running' and job.fence = requested.fence and job.token = requested.token
),
extended as (
  update {schema}.jobs job
  set
    leased_until = greatest(job.leased_until, {now} + held.lease * interval '1 microsecond'),
    progress = coalesce(cast(held.progress as json), job.progress)
  from held
  where job.ctid = held.ctid
  returning held.number, job.cancel_requested
)
select json_build_array(
  (select coalesce(json_agg(json_build_array(number, cancel_requested)), '[]') from extended),
  (
    select coalesce(json_agg(requested.number), '[]')
    from requested
    cross join lateral ({by_id}) job
    where
      requested.number not in (select number from extended)
      and job.state = 'running' and job.fence = requested.fence and job.token = requested.token
  )
);
