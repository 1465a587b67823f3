-- Pause and resume queues. Claims take no jobs of a paused queue.

-- name: pause
insert into tenure_paused (queue)
values (:queue)
on conflict do nothing;

-- name: resume
delete from tenure_paused
where queue = :queue;

-- name: paused
select queue
from tenure_paused
order by queue;
