-- The roles of a store, to be granted to login roles.
-- Run this again after a migration, which may have added tables or functions.

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

-- Producers and workers use the functions only, and cannot read the tables.
grant execute on function
  {for_producers}
to {producer}, {worker}, {library};
grant execute on function
  {for_workers}
to {worker}, {library};

-- Readers.
grant select on
  {tables},
  {read_only}
to {reader};

-- Users of the Python library.
grant select, insert, update, delete on
  {tables}
to {library};
grant select on
  {read_only}
to {library};
grant usage on sequence {schema}.job_sequence to {library};
