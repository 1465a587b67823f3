-- Retry or cancel rows for an operator. The same transaction has checked that the state allows the move.

-- name: retry
update {home}
set
  {state} = {as_queued},
  {attempts} = 0,
  {crashes} = 0,
  {token} = null,
  {worker} = null,
  {leased_until} = null,
  {completed_at} = null,
  {run_at} = :run_at,
  {record} = :record{write_error}
where {is_key};

-- name: clear
-- Set the user's columns listed in `on_retry`.
update {user}
set {cleared}
where {is_key};

-- name: cancel
update {home}
set
  {state} = {as_cancelled},
  {token} = null,
  {worker} = null,
  {leased_until} = null,
  {completed_at} = :completed_at,
  {record} = :record{write_error}
where {is_key};

-- name: request cancel
update {home}
set {record} = :record{write_error}
where {is_key};
