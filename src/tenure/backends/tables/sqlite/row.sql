-- Read one row by its key.

-- name: row
-- Whether a companion has it, whether `where` chooses it, the roles, and the user's columns.
select
  {columns}
from {rows}
where {is_row};

-- name: is done
-- Whether the work of a row shows.
select exists (select 1 from {user} as {own_name} where {is_key} and {done_if});
