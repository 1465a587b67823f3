-- Whether a claim may find a row now, and when it may find one next.

-- name: is free
select exists (
  select 1
  from {user} as {own_name}
  where {is_free}{and_where}{and_usable}
);

-- name: next due
-- When the next scheduled row is due.
select min({run_at_text})
from {held_rows}
where {is_queued}
  and {run_at_text} > :now
  and {matches_where}{and_has_id};

-- name: next lease
-- When the next lease expires. An expired lease does not count: the table may not let tenure reap the row.
select min({its_leased_until})
from {held_rows}
where {is_running}
  and {its_leased_until} > :expired_by{and_has_id};
