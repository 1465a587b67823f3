-- The parts of a function that reaps or claims rows.

-- name: variables
-- missed: the number of rows that were tried one by one and not changed; rejection: the first error that does not depend
-- on the values in the row, as SQLSTATE and message.
  "limit" integer;
  answer json;
  keys json;
  key json;
  number integer;
  missed integer;
  rejection text[];
  reaped integer := 0;

-- name: change
-- Reap or claim up to {wanted} rows at once, and count them in {total}. If the table rejects a row, or a write has no
-- effect, continue row by row, and give up after {sweep} rows that did not change. A page of keys excludes rows that
-- another transaction has locked. The exception after the list releases the locks of the listed rows; the variable
-- `keys` keeps its value.
  tenure_call.rejection := null;
  tenure_call.missed := 0;
  tenure_call."limit" := {wanted};
  begin
    {change_rows} into tenure_call.answer;
    tenure_call.number := {number};
    {total} := tenure_call.number;
  exception when others or assert_failure then
    {check_error}
    tenure_call.answer := null;
  end;
  if tenure_call.answer is null or {has_ineffective_write} then
    while {total} < {wanted} loop
      begin
        tenure_call."limit" := least({wanted} - {total} + tenure_call.missed, {sweep} - tenure_call.missed);
        {list_keys} into tenure_call.keys;
        raise exception using errcode = '{undo_locks}';
      exception when sqlstate '{undo_locks}' then
        null;
      end;
      exit when json_array_length(tenure_call.keys) = 0;
      tenure_call."limit" := 1;
      for tenure_call.key in select row.key from json_array_elements(tenure_call.keys) as row (key) loop
        exit when {total} >= {wanted};
        tenure_call.missed := tenure_call.missed + 1;
        begin
          {choose_key}
          {change_chosen} into tenure_call.answer;
          tenure_call.number := {number};
          {total} := {total} + tenure_call.number;
          tenure_call.missed := tenure_call.missed - tenure_call.number;
          if {has_ineffective_write} then
            raise warning 'row % not {action}: {no_effect}', tenure_call.key;
          end if;
        exception when others or assert_failure then
          {check_error}
          raise warning 'row % not {action}: %', tenure_call.key, sqlerrm;
        end;
      end loop;
    end loop;
  end if;
