-- Prolong leases. Whether a claim is held is looked up first, in the same transaction.

-- name: extend
-- A lease is never shortened.
update {kept}
set
  {leased_until} = :leased_until,
  {record} = :record
where {is_key};
