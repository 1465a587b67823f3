-- Count the rows by state, each number up to a bound.

-- name: due
-- How many are due, and the moment since when the first of them is.
select count(*), min(at)
from (
  select {due_since} as at
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
  and {is_chosen}{and_has_id}
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

-- name: found done
-- How many of the completed were so, for each way in which that was found.
select found, count(*)
from (
  select {found_done} as found
  from {held_rows}
  where {found_done} is not null and {is_completed}
  limit :scan
)
group by found;
