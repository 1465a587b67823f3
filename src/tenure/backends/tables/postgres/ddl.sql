-- Locks and catalogue queries for migrating a table in use.

-- name: try lock
-- table: its name. Try to get the migration lock of the table; the session holds the lock until it ends. A blocking
-- wait would hold a snapshot, and a concurrent index build of the lock holder would wait for that snapshot: a deadlock.
select pg_catalog.pg_try_advisory_lock(1952804470, pg_catalog.hashtext(:table));

-- name: indexes
-- oids: of the tables. Return their indexes, and whether an index is valid or another session is building it.
select
  cast(known.relname as text),
  index.indisvalid or exists (
    select from pg_catalog.pg_stat_progress_create_index where index_relid = index.indexrelid
  )
from pg_catalog.pg_index index
join pg_catalog.pg_class known on known.oid = index.indexrelid
where index.indrelid = any (cast(:oids as oid[]));

-- name: functions
-- schema; name. Return the functions of this name: the signature for `drop`, the comment, and whether the current
-- role may use the function.
select
  format('%I.%I(%s)', space.nspname, known.proname, pg_catalog.pg_get_function_identity_arguments(known.oid)),
  pg_catalog.obj_description(known.oid, 'pg_proc'), pg_catalog.has_function_privilege(known.oid, 'execute')
from pg_catalog.pg_proc known
join pg_catalog.pg_namespace space on space.oid = known.pronamespace
where space.nspname = :schema and known.proname = :name
order by 1;

-- name: types
-- schema; name. The same for types.
select
  format('%I.%I', space.nspname, known.typname), pg_catalog.obj_description(known.oid, 'pg_type'),
  pg_catalog.has_type_privilege(known.oid, 'usage')
from pg_catalog.pg_type known
join pg_catalog.pg_namespace space on space.oid = known.typnamespace
where space.nspname = :schema and known.typname = :name;
