-- Evaluate `done_if`.

-- name: already done
-- key_1 …: the keys of the rows. Return the keys of the rows for which `done_if` is true.
-- `offset 0` prevents the planner from evaluating the condition on other rows, where it may raise an error.
select coalesce(json_agg(requested.key), '[]')
from (
  select {key_of_row} as key, ({done_if}) as is_done
  from {rows}
  where ({row_key}) in (select {key_names} from {requested_keys})
  offset 0
) requested
where requested.is_done;
