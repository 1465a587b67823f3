-- End claims; by their holders, and by the reaper.
-- Whether a claim is held is looked up and decided first, in the same transaction; nobody else writes in between.

-- name: complete
-- A completed row keeps its token, which tells a completion sent again, and its worker, who did it.
update {kept}
set
  {state} = {as_completed},
  {leased_until} = null,
  {completed_at} = :completed_at,
  {record} = :record{write_error}
where {is_key};

-- name: recover
-- The work was found done after its holder died. Without a token: that one has lost it.
update {kept}
set
  {state} = {as_completed},
  {crashes} = :crashes,
  {token} = null,
  {leased_until} = null,
  {completed_at} = :completed_at,
  {record} = :record{write_error}
where {is_key};

-- name: end
update {kept}
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

-- name: wait
-- When a row that ended is due again.
update {kept}
set {run_at} = :run_at
where {is_key};
