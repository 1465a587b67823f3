-- Which claims to take back; each is ended as `settle` does, or recovered if its work shows.

-- name: expired
-- Those whose lease ran out, the longest expired first.
select
  {columns}
from {held_rows}
where {is_running}
  and {its_leased_until} <= :reached{and_has_id}
order by {its_leased_until}, {row_key}
limit :limit;

-- name: of the worker
-- Those of one worker, run out or not.
select
  {columns}
from {held_rows}
where {is_running}
  and {its_worker} = :worker{and_has_id}
order by {its_leased_until}, {row_key}
limit :limit;
