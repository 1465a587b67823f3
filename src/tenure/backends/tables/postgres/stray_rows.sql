-- Rows that are not as our operations leave them, and what mends them. Each question looks for no more than :most.

-- name: unknown words
-- The words of the state that mean nothing, how often each stands in the rows looked at, and how many were looked at.
select cast({state} as text), count(*), (select count(*) from (select from {home} limit :most) seen)
from (select {state} from {home} limit :most) seen
where {state} is null or {state} not in ({words})
group by {state}
order by count(*) desc
limit 5;

-- name: mending rows without a state
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

-- name: mending queued and held
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

-- name: mending finished and leased
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

-- name: orphans
-- Of a companion: rows whose row is gone.
select array(
  select cast({key} as text)
  from {home} {ours}
  where not exists (select from {table} {alias} where {same_key})
  limit :most
);

-- name: mending orphans
delete from {home} {ours}
where not exists (select from {table} {alias} where {same_key});

-- name: completed and still chosen
-- Of a companion: completed rows that the user's condition still chooses.
select array(
  select cast({key} as text)
  from (select {key_columns} from {home} {ours} where {ours}.{state} = {completed} limit :most) {ours}
  where exists (select from {table} {alias} where {same_key} and ({where}))
);

-- name: output twice
-- How many values of the output are there more than once.
select count(*)
from (
  select
  from {output}
  where {output_is_there}
  group by {output_columns}
  having count(*) > 1
  limit :most
) twice;

-- name: finding output twice
select {output_columns}, count(*)
from {output}
where {output_is_there}
group by {output_columns}
having count(*) > 1;
