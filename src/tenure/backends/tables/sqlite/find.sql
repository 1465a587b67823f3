-- Read rows page by page, in order or in reverse.

-- name: page
-- Reads at most :scan rows; the caller stops when the page is full.
select
  {sort_values},
  {columns}
from {rows}
where {is_job}
  and {is_requested}
  and {is_beyond}{and_has_id}
order by {sorting}
limit :scan;
