-- Count the rows by state.

-- name: stats
-- Return the numbers of due, scheduled, running, completed, failed and cancelled rows; since when the oldest due row is
-- due; how many completed rows were found done: by the reaper (recovered), and by a holder before its work
-- (prevented); and how many running rows have a lease that expired :stuck_after microseconds ago or earlier. Each count
-- stops at :scan.
select json_build_array(
  (select count(*) from (select {due} limit :scan) counted),
  (select count(*) from (select {scheduled} limit :scan) counted),
  (select count(*) from (select {stored[running]} limit :scan) counted),
  (select count(*) from (select {stored[completed]} limit :scan) counted),
  (select count(*) from (select {stored[failed]} limit :scan) counted),
  (select count(*) from (select {stored[cancelled]} limit :scan) counted),
  (select min(counted.run_at) from (select {due_since} as run_at {due} limit :scan) counted),
  (
    select count(*)
    from (select {stored[completed]} and {home_alias}.{record} ->> 'found_done' = 'recovered' limit :scan) counted
  ),
  (
    select count(*)
    from (select {stored[completed]} and {home_alias}.{record} ->> 'found_done' = 'prevented' limit :scan) counted
  ),
  (
    select count(*)
    from (
      select
      {stored[running]} and {home_alias}.{leased_until} <= ({now} - cast(:stuck_after as bigint) * interval '1 microsecond'){zone[leased_until]}
      limit :scan
    ) counted
  )
);
