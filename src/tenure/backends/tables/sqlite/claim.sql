-- Claim rows: expired claims are reaped first, as in `reap`. All in one transaction, under the write lock.

-- name: held
-- The rows that a token holds, in claim order.
select {row_key}
from {held_rows}
where {is_running} and {its_token} = :token
order by {held_order};

-- name: free
-- The first due rows: queued, `run_at` reached, and matched by `where`.
select {key}
from {user} as {own_name}
where {is_free}{and_where}{and_usable}
order by {claim_order}
limit :limit;

-- name: is due
-- Whether a row is due, by the same conditions.
select exists (select 1 from {user} as {own_name} where {is_key} and {is_free}{and_where}{and_usable});

-- name: begin
-- Create the sidecar row if it does not exist.
insert into {home} ({key})
values ({key_values})
on conflict do nothing;

-- name: take
-- Lease a row, and increment its fence and attempts.
update {home}
set
  {state} = {as_running},
  {fence} = coalesce({fence}, 0) + 1,
  {attempts} = coalesce({attempts}, 0) + 1,
  {token} = :token,
  {worker} = :worker,
  {leased_until} = :leased_until,
  {started_at} = :started_at,
  {completed_at} = null,
  {record} = :record
where {is_key};
