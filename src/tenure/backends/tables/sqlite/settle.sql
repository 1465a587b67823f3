-- End claims, for the holder or for `reap`.
-- The same transaction has checked that the claim is held, and no other writer can come in between.

-- name: complete
-- A completed row keeps the token, which identifies a repeated completion, and the name of the worker.
update {home}
set
  {state} = {as_completed},
  {leased_until} = null,
  {completed_at} = :completed_at,
  {record} = :record{write_error}
where {is_key};

-- name: recover
-- The work was done before the claim expired. The token is cleared: the holder has lost the claim.
update {home}
set
  {state} = {as_completed},
  {crashes} = :crashes,
  {token} = null,
  {leased_until} = null,
  {completed_at} = :completed_at,
  {record} = :record{write_error}
where {is_key};

-- name: end
update {home}
set
  {state} = :state,
  {attempts} = :attempts,
  {crashes} = :crashes,
  {token} = null,
  {worker} = null,
  {leased_until} = null,
  {completed_at} = :completed_at,
  {record} = :record{write_error}
where {is_key};

-- name: set run_at
-- Set when a requeued row is due again.
update {home}
set {run_at} = :run_at
where {is_key};
