-- Poll: can a claim find rows, and if not, when.

-- name: poll
-- Return the seconds until a claim may find rows, 0 or less for now, null if unknown; and the current time.
-- since: ignore leases that expired before this time, null for none. Without it, an expired row that a long transaction
-- has locked would be reported on every poll. At most :scan scheduled rows are considered.
select json_build_array(
  case
    when exists (select {due}{and_chosen_rows} limit 1) then 0
    else extract(epoch from nullif(least(
      (
        select min(waiting.run_at)
        from (select {scheduled_at} as run_at {scheduled} limit :scan) waiting
      ),
      (
        select ({home_alias}.{leased_until}){zone[leased_until]}
        from {home_rows}
        where
          {home_alias}.{state} = {running}
          and {home_alias}.{leased_until} > (coalesce(cast(:since as timestamptz), '-infinity')){zone[leased_until]}
        order by {home_alias}.{leased_until}
        limit 1
      )
    ), 'infinity') - {now})
  end,
  {now}
);
