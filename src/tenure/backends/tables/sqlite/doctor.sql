-- Find problems in the rows. Every query stops after :scan matching rows.

-- name: other states
-- Values that are not a state value, their number of rows, and an example row.
select state_value, count(*), min(id)
from (
  select {its_state} as state_value, {example} as id
  from {user} as {row}
  where {its_state} not in ({state_values})
  limit :scan
)
group by state_value
order by count(*) desc
limit 5;

-- name: no state
select count(*), min(id)
from (select {example} as id from {user} as {row} where {its_state} is null limit :scan);

-- name: unusable keys
select count(*)
from (select 1 from {user} as {own_name} where {is_unusable} limit :scan);

-- name: running without a lease
select count(*), min(id)
from (select {example} as id from {held_rows} where {is_running} and {its_leased_until} is null limit :scan);

-- name: stuck
-- Running rows whose lease expired before :expired_by.
select count(*), min(id)
from (select {example} as id from {held_rows} where {is_running} and {its_leased_until} <= :expired_by limit :scan);

-- name: leases in another form
-- A lease of another storage class never compares as expired.
select count(*), min(id)
from (
  select {example} as id
  from {held_rows}
  where {is_running} and {its_leased_until} is not null and typeof({its_leased_until}) not in ({lease_kinds})
  limit :scan
);

-- name: queued with a token
select count(*), min(id)
from (select {example} as id from {held_rows} where {is_queued} and {its_token} is not null limit :scan);

-- name: finished with a lease
select count(*), min(id)
from (
  select {example} as id
  from {held_rows}
  where {its_state} in ({finished}) and {its_leased_until} is not null
  limit :scan
);

-- name: unreadable moments
select count(*), min(id)
from (
  select {example} as id
  from {held_rows}
  where {its_moment} is not null and {its_time} is null
  limit :scan
);

-- name: damaged records
select count(*), min(id)
from (
  select {example} as id
  from {held_rows}
  where {its_record} is not null and not json_valid({its_record})
  limit :scan
);

-- name: orphans
-- Sidecar rows whose row in the user's table was deleted.
select count(*)
from (
  select 1
  from {home_row}
  where not exists (select 1 from {user} as {row} where {joined})
  limit :scan
);

-- name: completed and still chosen
select count(*), min(id)
from (select {example} as id from {held_rows} where {is_completed} and {matches_where} limit :scan);

-- name: clear queued
update {home} set {token} = null, {worker} = null, {leased_until} = null where {state} = {as_queued} and {token} is not null

-- name: clear finished
update {home} set {leased_until} = null where {state} in ({finished}) and {leased_until} is not null

-- name: delete orphans
delete from {home} where not exists (select 1 from {user} as {row} where {orphan})
