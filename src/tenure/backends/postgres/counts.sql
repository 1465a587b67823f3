-- Event counts by minute, for the last day.

-- name: since
-- Return the sums of every minute within the last :since microseconds. Sums of zero, left by a correction, are omitted.
select coalesce(json_agg(json_build_array(minute_at, queue, event, number) order by minute_at, queue, event), '[]')
from (
  select minute_at, queue, event, cast(sum(number) as bigint) as number
  from {schema}.counts
  where minute_at >= date_trunc('minute', {now} - cast(:since as bigint) * interval '1 microsecond', 'UTC')
  group by minute_at, queue, event
  having sum(number) <> 0
) counted;

-- name: merge
-- Merge the rows of past minutes. since: first minute, null for the oldest; most: maximum number of rows to read.
-- Return where the next run starts: at the last minute read or, if all rows were read, five minutes ago, because
-- transactions that are still open may add rows.
with
past_row as materialized (
  select ctid, minute_at, queue, event
  from {schema}.counts
  where
    minute_at >= coalesce(cast(:since as timestamptz), '-infinity')
    and minute_at < date_trunc('minute', {now}, 'UTC')
  order by minute_at, queue, event
  limit :most
),
repeated as (
  select minute_at, queue, event
  from past_row
  group by minute_at, queue, event
  having count(*) > 1
),
locked as materialized (
  select locked_row.ctid
  from repeated
  join past_row
    on past_row.minute_at = repeated.minute_at and past_row.queue = repeated.queue and past_row.event = repeated.event
  cross join lateral (
    select ctid from {schema}.counts where ctid = past_row.ctid for update skip locked
  ) locked_row
),
deleted as (
  delete from {schema}.counts
  using locked
  where counts.ctid = locked.ctid
  returning counts.minute_at, counts.queue, counts.event, counts.number
),
merged as (
  insert into {schema}.counts (minute_at, queue, event, number)
  select minute_at, queue, event, sum(number)
  from deleted
  group by minute_at, queue, event
  having sum(number) <> 0
)
select to_json(case when count(*) = :most then max(minute_at) else {now} - interval '5 minutes' end)
from past_row;

-- name: drop old
delete from {schema}.counts
using (
  select ctid
  from {schema}.counts
  where minute_at < date_trunc('minute', {now} - cast(:kept as bigint) * interval '1 microsecond', 'UTC')
  limit :most
  for update skip locked
) old
where counts.ctid = old.ctid;
