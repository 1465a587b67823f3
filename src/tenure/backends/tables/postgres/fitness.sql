-- What the server knows of a table beside its columns: who may do what, and what else happens when a row changes.

-- name: rights
-- oid: the table. The role that asks, whether it may use the schema, insert, and update any column; and the columns that
-- it may not read, and those that it may not write.
select
  cast(current_user as text),
  pg_catalog.has_schema_privilege(relation.relnamespace, 'usage'),
  pg_catalog.has_table_privilege(relation.oid, 'insert'),
  pg_catalog.has_any_column_privilege(relation.oid, 'update'),
  array(
    select cast(attname as text)
    from pg_catalog.pg_attribute
    where
      attrelid = relation.oid and attnum > 0 and not attisdropped
      and not pg_catalog.has_column_privilege(relation.oid, attnum, 'select')
    order by attnum
  ),
  array(
    select cast(attname as text)
    from pg_catalog.pg_attribute
    where
      attrelid = relation.oid and attnum > 0 and not attisdropped
      and not pg_catalog.has_column_privilege(relation.oid, attnum, 'update')
    order by attnum
  )
from pg_catalog.pg_class relation
where relation.oid = cast(:oid as oid);

-- name: policies
-- oid: the table. The policies of its row-level security.
select cast(polname as text)
from pg_catalog.pg_policy
where polrelid = cast(:oid as oid)
order by polname;

-- name: triggers
-- oid: the table. What fires when rows are updated, and the columns that it is for, none for all.
select
  cast(tgname as text), tgtype & 2 <> 0 as is_before,
  array(
    select cast(attribute.attname as text)
    from unnest(cast(tgattr as smallint[])) as named (attnum)
    join pg_catalog.pg_attribute attribute on attribute.attrelid = tgrelid and attribute.attnum = named.attnum
  )
from pg_catalog.pg_trigger
where tgrelid = cast(:oid as oid) and not tgisinternal and tgenabled <> 'D' and tgtype & 16 <> 0
order by tgname;

-- name: rules
-- oid: the table. What is done instead of an update, or beside it.
select cast(rulename as text)
from pg_catalog.pg_rewrite
where ev_class = cast(:oid as oid) and ev_type = '2' and ev_enabled <> 'D'
order by rulename;

-- name: checks
-- oid: the table; column. The constraints that are about this column alone.
select cast(conname as text), pg_catalog.pg_get_expr(conbin, conrelid)
from pg_catalog.pg_constraint
where
  conrelid = cast(:oid as oid) and contype = 'c'
  and conkey = array(
    select attnum from pg_catalog.pg_attribute where attrelid = cast(:oid as oid) and attname = :column
  )
order by conname;

-- name: size
-- oid: the table. About how many rows it has, and how many versions of rows that nobody sees.
select greatest(relation.reltuples, counted.n_live_tup, 0), coalesce(counted.n_dead_tup, 0)
from pg_catalog.pg_class relation
left join pg_catalog.pg_stat_all_tables counted on counted.relid = relation.oid
where relation.oid = cast(:oid as oid);

-- name: partial indexes
-- oid: the table. Its indexes that have only some of the rows.
select cast(known.relname as text)
from pg_catalog.pg_index index
join pg_catalog.pg_class known on known.oid = index.indexrelid
where index.indrelid = cast(:oid as oid) and index.indpred is not null;
