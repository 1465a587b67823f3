-- Count the rows by state, each number up to :scan.

-- name: due
-- The number of due rows, and the time since when the oldest is due.
select count(*), min(due_at)
from (
  select {due_since} as due_at
  from {user} as {own_name}
  where {is_free}{and_where}{and_usable}
  limit :scan
);

-- name: scheduled
select count(*)
from (
  select 1
  from {held_rows}
  where {is_queued}
  and {run_at_text} > :now
  and {matches_where}{and_has_id}
  limit :scan
);

-- name: of a state
select count(*)
from (
  select 1
  from {held_rows}
  where {is_of_state}
  and {is_job}{and_has_id}
  limit :scan
);

-- name: stuck
-- The number of running rows with a lease that expired before :expired_by.
select count(*)
from (
  select 1
  from {held_rows}
  where {is_running}
  and {its_leased_until} <= :expired_by{and_has_id}
  limit :scan
);

-- name: found done
-- The number of completed rows by `found_done`: recovered or prevented.
select found, count(*)
from (
  select {found_done} as found
  from {held_rows}
  where {found_done} is not null and {is_completed}
  limit :scan
)
group by found;
