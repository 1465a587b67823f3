-- The roles of a store.
-- Those who log in become members of them. Run it again after a migration: that may have added something.

do $roles$
declare
  role text;
begin
  foreach role in array array['{producer}', '{worker}', '{reader}', '{library}'] loop
    if not exists (select from pg_roles where rolname = role) then
      execute format('create role %I nologin', role);
    end if;
  end loop;
end
$roles$;

grant usage on schema {schema} to {producer}, {worker}, {reader}, {library};

-- Who enqueues by the functions, and who also works by them: neither sees a table.
grant execute on function
  {for_producers}
to {producer}, {worker}, {library};
grant execute on function
  {for_workers}
to {worker}, {library};

-- Who looks.
grant select on
  {tables},
  {known}
to {reader};

-- Who uses the Python library.
grant select, insert, update, delete on
  {tables}
to {library};
grant select on
  {known}
to {library};
grant usage on sequence {schema}.job_sequence to {library};
