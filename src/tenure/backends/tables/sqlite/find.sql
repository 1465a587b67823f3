-- Show rows page by page, in their order or the reverse.

-- name: page
-- At most :scan rows are read, and no more than the page takes.
select
  {places},
  {columns}
from {rows}
where {is_job}
  and {is_asked_for}
  and {is_beyond}{and_has_id}
order by {sorting}
limit :scan;
