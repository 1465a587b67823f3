-- Extend leases. The same transaction has checked that the claim is held.

-- name: extend
-- A lease is never shortened.
update {home}
set
  {leased_until} = :leased_until,
  {record} = :record
where {is_key};
