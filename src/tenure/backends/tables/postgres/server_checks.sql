-- Catalogue queries for `tenure doctor`: rights, policies, triggers, rules, constraints, size and indexes of a table.

-- name: rights
-- oid: the table. Return the current role; whether the role may use the schema, insert, and update at least one column;
-- and the columns that the role may not read, and may not update.
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
-- oid: the table. Return its row-level security policies.
select cast(polname as text)
from pg_catalog.pg_policy
where polrelid = cast(:oid as oid)
order by polname;

-- name: triggers
-- oid: the table. Return its enabled update triggers with their columns; no columns means all.
select
  cast(tgname as text), tgtype & 2 <> 0 as is_before,
  array(
    select cast(attribute.attname as text)
    from unnest(cast(tgattr as smallint[])) as trigger_column (attnum)
    join pg_catalog.pg_attribute attribute on attribute.attrelid = tgrelid and attribute.attnum = trigger_column.attnum
  )
from pg_catalog.pg_trigger
where tgrelid = cast(:oid as oid) and not tgisinternal and tgenabled <> 'D' and tgtype & 16 <> 0
order by tgname;

-- name: rules
-- oid: the table. Return its enabled rules on update.
select cast(rulename as text)
from pg_catalog.pg_rewrite
where ev_class = cast(:oid as oid) and ev_type = '2' and ev_enabled <> 'D'
order by rulename;

-- name: checks
-- oid: the table; column. Return the check constraints on this column alone.
select cast(conname as text), pg_catalog.pg_get_expr(conbin, conrelid)
from pg_catalog.pg_constraint
where
  conrelid = cast(:oid as oid) and contype = 'c'
  and conkey = array(
    select attnum from pg_catalog.pg_attribute where attrelid = cast(:oid as oid) and attname = :column
  )
order by conname;

-- name: size
-- oid: the table. Return the estimated numbers of rows and of dead row versions.
select greatest(relation.reltuples, counted.n_live_tup, 0), coalesce(counted.n_dead_tup, 0)
from pg_catalog.pg_class relation
left join pg_catalog.pg_stat_all_tables counted on counted.relid = relation.oid
where relation.oid = cast(:oid as oid);

-- name: partial indexes
-- oid: the table. Return its partial indexes.
select cast(known.relname as text)
from pg_catalog.pg_index index
join pg_catalog.pg_class known on known.oid = index.indexrelid
where index.indrelid = cast(:oid as oid) and index.indpred is not null;
