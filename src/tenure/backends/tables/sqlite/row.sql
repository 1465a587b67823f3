-- Read one row by its key.

-- name: row
-- Returns the key, whether a sidecar row exists, whether `where` matches, the role columns, and the user's columns.
select
  {columns}
from {rows}
where {is_row};

-- name: claim
-- The same without evaluating `where` or reading the user's columns: both may fail on a row.
select
  {claim_columns}
from {rows}
where {is_row};

-- name: is done
-- Whether `done_if` holds for a row.
select exists (select 1 from {user} as {own_name} where {is_key} and {done_if});
