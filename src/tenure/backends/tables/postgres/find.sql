-- List rows page by page, in claim order without priority, or in reverse.

-- name: page
-- Return at most :limit matching rows among the next :scan jobs, and the position of the next page, null at the end.
-- Row number :scan is kept even if it does not match, because the next page continues after it.
with
candidate as (
  select
    {keys_of[job]}{sort_columns_of[job]}, job.state, job.worker, job.attempts, job.run_at, job.record,
    case
      when job.state in ('completed', 'failed', 'cancelled') then coalesce(job.completed_at, job.created_at)
      else job.created_at
    end as last_at
  from ({source}) job
  where {has_requested_state} and (job.matches_where or job.is_kept) and {is_beyond}
  order by {order}
  limit :scan
),
checked as (
  select
    {keys_of[job]}{sort_columns_of[job]}, row_number() over (order by {order}) as number,
    (cast(:worker as text) is null or coalesce(job.worker = :worker, false))
    and (cast(:attempts_over as integer) is null or job.attempts > :attempts_over)
    and (cast(:due as boolean) is null or (job.state = 'queued' and coalesce(job.run_at <= {now}, true) = :due))
    and (
      cast(:since as bigint) is null
      or coalesce(job.last_at >= {now} - :since * interval '1 microsecond', false)
    )
    and (cast(:error as text) is null or coalesce(strpos((
      select line.value ->> 6
      from jsonb_path_query(job.record, '$.history[*]') with ordinality as line (value, number)
      where line.value ->> 6 is not null and line.value ->> 0 <> 'operator'
      order by line.number desc
      limit 1
    ), :error) > 0, false)) as matches
  from candidate job
),
found as materialized (
  select {keys_of[job]}{sort_columns_of[job]}, job.number, job.matches
  from (
    select {keys_of[job]}{sort_columns_of[job]}, job.number, job.matches
    from checked job
    where job.matches or job.number = :scan
    order by {order}
    limit :limit
  ) job
  limit {largest_batch}
),
encoded as (
  select found.number, {job_json} as job
  from found
  join ({unfiltered_jobs}) job on {same_key[job, found]}
  join {outer_rows} on {row_is[job]}
  where found.matches
)
select json_build_array(
  coalesce((select json_agg(encoded.job order by encoded.number) from encoded), '[]'),
  (
    select case when count(*) = :limit or max(found.number) = :scan then (
      select {position_of[last]} from found last order by last.number desc limit 1
    ) end
    from found
  )
);
