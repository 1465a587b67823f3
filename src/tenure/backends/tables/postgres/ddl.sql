-- What it takes to change a table while others use it.

-- name: try alone
-- table: its name. One at a time changes a table, until the session ends. Nobody waits in a statement: whoever does has a
-- snapshot, for whose end an index that is built concurrently would wait.
select pg_catalog.pg_try_advisory_lock(1952804470, pg_catalog.hashtext(:table));

-- name: indexes
-- oids: of tables. Their indexes, and whether each can be used, or will be: somebody builds it.
select
  cast(known.relname as text),
  index.indisvalid or exists (
    select from pg_catalog.pg_stat_progress_create_index where index_relid = index.indexrelid
  )
from pg_catalog.pg_index index
join pg_catalog.pg_class known on known.oid = index.indexrelid
where index.indrelid = any (cast(:oids as oid[]));

-- name: functions
-- schema; name. The functions of this name: how a drop names each, what is said about it, and whether this role may use
-- it.
select
  format('%I.%I(%s)', space.nspname, known.proname, pg_catalog.pg_get_function_identity_arguments(known.oid)),
  pg_catalog.obj_description(known.oid, 'pg_proc'), pg_catalog.has_function_privilege(known.oid, 'execute')
from pg_catalog.pg_proc known
join pg_catalog.pg_namespace space on space.oid = known.pronamespace
where space.nspname = :schema and known.proname = :name
order by 1;

-- name: types
-- schema; name. The same for a type.
select
  format('%I.%I', space.nspname, known.typname), pg_catalog.obj_description(known.oid, 'pg_type'),
  pg_catalog.has_type_privilege(known.oid, 'usage')
from pg_catalog.pg_type known
join pg_catalog.pg_namespace space on space.oid = known.typnamespace
where space.nspname = :schema and known.typname = :name;
