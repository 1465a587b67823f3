-- Explain when a row can be claimed.

-- name: outlook
-- key_1 …: the key of the row. Return the current time, the job, the number of due rows ahead of it (at most :most),
-- and whether `where` matches.
select json_build_array(
  {now},
  {job_json},
  case when job.state_value = {queued} and job.matches_where and coalesce(job.run_at <= {now}, true) then (
    select count(*)
    from (
      select
      from ({jobs}) other
      where
        other.state_value = {queued} and other.matches_where and coalesce(other.run_at <= {now}, true)
        and {other_is_before_job}
      limit :most
    ) ahead
  ) else 0 end,
  job.matches_where
)
from ({requested_jobs}) job
join {outer_rows} on {row_is[job]}
where job.state is not null;
