-- Give each slot of a schedule out once.

-- name: last
select last_at
from tenure_schedules
where name = :name;

-- name: give out
-- The schedule begins, or a later slot becomes the last.
insert into tenure_schedules (name, last_at)
values (:name, :last_at)
on conflict (name) do update set last_at = excluded.last_at;
