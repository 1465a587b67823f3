-- Evaluate `done_if`.

-- name: already done
-- key_1 …: the keys of the rows. Return the keys of the rows for which `done_if` is true.
-- `offset 0` prevents the planner from evaluating the condition on other rows, where it may raise an error.
select coalesce(json_agg(asked_for.key), '[]')
from (
  select {key_of_row} as key, ({done_if}) as is_done
  from {rows}
  where ({row_key}) in (select {key_names} from {asked_keys})
  offset 0
) asked_for
where asked_for.is_done;
