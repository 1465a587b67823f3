-- Select claims to reap. Each claim is then ended with a statement of `settle`, or recovered if `done_if` holds.

-- name: expired
-- The keys of claims with an expired lease, the longest expired first.
select {row_key}
from {held_rows}
where {is_running}
  and {its_leased_until} <= :expired_by{and_has_id}
order by {its_leased_until}, {row_key}
limit :limit;

-- name: is expired
-- Whether a row has a claim with an expired lease.
select exists (select 1 from {held_rows} where {is_row} and {is_running} and {its_leased_until} <= :expired_by);

-- name: of the worker
-- The keys of all claims of one worker, expired or not.
select {row_key}
from {held_rows}
where {is_running}
  and {its_worker} = :worker{and_has_id}
order by {its_leased_until}, {row_key}
limit :limit;

-- name: is of the worker
-- Whether a row has a claim of the worker.
select exists (select 1 from {held_rows} where {is_row} and {is_running} and {its_worker} = :worker);
