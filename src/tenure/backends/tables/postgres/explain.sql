-- Explain when a row can be claimed.

-- name: outlook
-- key_1 …: the key of the row. Return the current time, the job, the number of due rows ahead of it (at most :most),
-- and whether `where` matches.
select json_build_array(
  {now},
  {shown},
  case when job.word = {queued} and job.is_chosen and coalesce(job.run_at <= {now}, true) then (
    select count(*)
    from (
      select
      from ({jobs}) other
      where
        other.word = {queued} and other.is_chosen and coalesce(other.run_at <= {now}, true) and {other_is_before_job}
      limit :most
    ) ahead
  ) else 0 end,
  job.is_chosen
)
from ({jobs_named}) job
join {rows_apart} on {row_is[job]}
where job.state is not null;
