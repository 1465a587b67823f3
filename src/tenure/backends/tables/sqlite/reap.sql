-- Select claims to reap. Each claim is then ended with a statement of `settle`, or recovered if `done_if` holds.

-- name: expired
-- Claims with an expired lease, the longest expired first.
select
  {columns}
from {held_rows}
where {is_running}
  and {its_leased_until} <= :expired_by{and_has_id}
order by {its_leased_until}, {row_key}
limit :limit;

-- name: of the worker
-- All claims of one worker, expired or not.
select
  {columns}
from {held_rows}
where {is_running}
  and {its_worker} = :worker{and_has_id}
order by {its_leased_until}, {row_key}
limit :limit;
