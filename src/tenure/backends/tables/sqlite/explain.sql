-- Explain when a row is claimed.

-- name: sort position
-- The sort position of a row in claim order.
select {sort_values}
from {user} as {own_name}
where {is_key};

-- name: ahead
-- The number of rows claimed before this position, counted up to :most.
select count(*)
from (
  select 1
  from {user} as {own_name}
  where {is_free}{and_where}{and_usable}
  and {is_before}
  limit :most
);
