-- Give each slot of a schedule out once.

-- name: begin
-- A schedule that was never seen begins now.
insert into {schema}.schedules (name, last_at)
values (:name, {now})
on conflict do nothing;

-- name: last
-- The present moment, and the last slot that was given out. Nobody else gives one out until this transaction ends.
select json_build_array({now}, last_at)
from {schema}.schedules
where name = :name
for update;

-- name: give out
update {schema}.schedules
set last_at = :last_at
where name = :name;
