-- The number of events in each minute of the last day.

-- name: add
insert into tenure_counts (minute_at, queue, event, number)
values (:minute_at, :queue, :event, :number)
on conflict (minute_at, queue, event) do update set number = number + excluded.number;

-- name: drop old
delete from tenure_counts
where minute_at < :before;

-- name: since
select minute_at, queue, event, number
from tenure_counts
where minute_at >= :since
order by minute_at, queue, event;
