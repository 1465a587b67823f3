-- Enqueue each slot of a schedule once.

-- name: begin
-- A new schedule starts now.
insert into {schema}.schedules (name, last_at)
values (:name, {now})
on conflict do nothing;

-- name: last
-- Return the current time and the last enqueued slot, and lock the schedule until this transaction ends.
select json_build_array({now}, last_at)
from {schema}.schedules
where name = :name
for update;

-- name: set last slot
update {schema}.schedules
set last_at = :last_at
where name = :name;
