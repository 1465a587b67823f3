-- Take rows: what ran out is taken back first, as `reap` does. All in one transaction; nobody else writes beside it.

-- name: held
-- The rows that a token holds, in the order of a claim.
select {row_key}
from {held_rows}
where {is_running} and {its_token} = :token
order by {held_order};

-- name: free
-- The first rows that are due: queued, not to wait any longer, and chosen by `where`.
select {key}
from {user} as {own_name}
where {is_free}{and_where}{and_usable}
order by {claim_order}
limit :limit;

-- name: begin
-- Make the row of the companion, if there is none yet.
insert into {kept} ({key})
values ({key_values})
on conflict do nothing;

-- name: take
-- Lease a row, with its fence and attempts one higher.
update {kept}
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
