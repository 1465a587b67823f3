-- Move rows by an operator's hand. Whether a row may move is looked up and decided first, in the same transaction.

-- name: retry
update {kept}
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
-- What a retry sets in the user's own columns.
update {user}
set {cleared}
where {is_key};

-- name: cancel
update {kept}
set
  {state} = {as_cancelled},
  {token} = null,
  {worker} = null,
  {leased_until} = null,
  {completed_at} = :completed_at,
  {record} = :record{write_error}
where {is_key};

-- name: ask to cancel
update {kept}
set {record} = :record{write_error}
where {is_key};
