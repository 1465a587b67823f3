-- Queries for inconsistent rows, and statements that repair them. Each query returns at most :most rows.

-- name: unknown state values
-- Return unknown state values, their counts, and the number of rows checked.
select cast({state} as text), count(*), (select count(*) from (select from {home} limit :most) seen)
from (select {state} from {home} limit :most) seen
where {state} is null or {state} not in ({state_values})
group by {state}
order by count(*) desc
limit 5;

-- name: repair rows without a state
update {home}
set {state} = {queued}
where {state} is null;

-- name: queued and held
select array(
  select cast({key} as text)
  from {home}
  where {state} = {queued} and ({token} is not null or {leased_until} is not null)
  limit :most
);

-- name: repair queued and held
update {home}
set {leased_until} = null, {token} = null
where {state} = {queued} and ({token} is not null or {leased_until} is not null);

-- name: finished and leased
select array(
  select cast({key} as text)
  from {home}
  where {state} in ({finished}) and {leased_until} is not null
  limit :most
);

-- name: repair finished and leased
update {home}
set {leased_until} = null
where {state} in ({finished}) and {leased_until} is not null;

-- name: running without a lease
select array(
  select cast({key} as text)
  from {home}
  where {state} = {running} and {leased_until} is null
  limit :most
);

-- name: running without a token
select array(
  select cast({key} as text)
  from {home}
  where {state} = {running} and {leased_until} is not null and {token} is null
  limit :most
);

-- name: stuck
-- Running rows whose lease expired :stuck_after seconds ago or earlier.
select array(
  select cast({key} as text)
  from {home}
  where {state} = {running} and {leased_until} <= (now() - :stuck_after * interval '1 second'){lease_zone}
  limit :most
);

-- name: orphans
-- Sidecar rows whose row in the user's table was deleted.
select array(
  select cast({key} as text)
  from {home} {sidecar}
  where not exists (select from {table} {alias} where {same_key})
  limit :most
);

-- name: repair orphans
delete from {home} {sidecar}
where not exists (select from {table} {alias} where {same_key});

-- name: completed and still chosen
-- Completed sidecar rows that `where` still matches.
select array(
  select cast({key} as text)
  from (select {key_columns} from {home} {sidecar} where {sidecar}.{state} = {completed} limit :most) {sidecar}
  where exists (select from {table} {alias} where {same_key} and ({where}))
);

-- name: duplicate outputs
-- Return the number of output values with duplicates.
select count(*)
from (
  select
  from {output}
  where {output_is_not_null}
  group by {output_columns}
  having count(*) > 1
  limit :most
) duplicate;

-- name: list duplicate outputs
select {output_columns}, count(*)
from {output}
where {output_is_not_null}
group by {output_columns}
having count(*) > 1;
