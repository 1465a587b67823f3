-- Tell what a claim of one row depends on.

-- name: place
-- Where a row stands in the order of a claim.
select {places}
from {user} as {own_name}
where {is_key};

-- name: ahead
-- How many are taken before the row at this place; at most :most are counted.
select count(*)
from (
  select 1
  from {user} as {own_name}
  where {is_free}{and_where}{and_usable}
  and {is_before}
  limit :most
);
