-- Whether a claim may find something, and when it next may.

-- name: look
-- Answer in how many seconds a claim may find something, 0 or less for now, null if that is not known; and the present
-- moment. since: leases that ran out before are known to the caller, null for none: one that somebody is ending in a long
-- transaction would be told again and again. Of the rows that are scheduled, :scan are looked at.
select json_build_array(
  case
    when exists (select {due} limit 1) then 0
    else extract(epoch from nullif(least(
      (
        select min(waiting.run_at)
        from (select {scheduled_at} as run_at {scheduled} limit :scan) waiting
      ),
      (
        select ({held_by}.{leased_until}){zone[leased_until]}
        from {home_rows}
        where
          {held_by}.{state} = {running}
          and {held_by}.{leased_until} > (coalesce(cast(:since as timestamptz), '-infinity')){zone[leased_until]}
        order by {held_by}.{leased_until}
        limit 1
      )
    ), 'infinity') - {now})
  end,
  {now}
);
