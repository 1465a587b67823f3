-- Enqueue each slot of a schedule once.

-- name: last
select last_at
from tenure_schedules
where name = :name;

-- name: set last slot
-- Insert a new schedule, or set its last slot to a later one.
insert into tenure_schedules (name, last_at)
values (:name, :last_at)
on conflict (name) do update set last_at = excluded.last_at;
