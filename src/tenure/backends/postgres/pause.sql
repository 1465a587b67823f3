-- Pause and resume queues. Claims skip paused queues.

-- name: pause
insert into {schema}.paused (queue)
select queue
from unnest(cast(:queues as text[])) as requested (queue)
order by queue
on conflict do nothing;

-- name: resume
delete from {schema}.paused
where queue = any (cast(:queues as text[]));
