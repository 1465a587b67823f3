-- Whether the work of rows is done.

-- name: already done
-- key_1 …: the rows that are asked for; answer the keys of those for which it is.
-- By `offset 0` no other row is looked at: on that, the condition might fail.
select coalesce(json_agg(asked_for.key), '[]')
from (
  select {key_of_row} as key, ({done_if}) as is_done
  from {rows}
  where ({row_key}) in (select {key_names} from {asked_keys})
  offset 0
) asked_for
where asked_for.is_done;
