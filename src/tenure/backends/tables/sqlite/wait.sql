-- Whether a claim may find something, and when it next may.

-- name: is free
select exists (
  select 1
  from {user} as {own_name}
  where {is_free}{and_where}{and_usable}
);

-- name: next due
-- When the next row that waits is due.
select min({run_at_text})
from {held_rows}
where {is_queued}
  and {run_at_text} > :now
  and {is_chosen}{and_has_id};

-- name: next lease
-- When the next lease runs out.
select min({its_leased_until})
from {held_rows}
where {is_running}{and_has_id};
