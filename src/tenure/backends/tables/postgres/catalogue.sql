-- Read a table and its sidecar table from the catalogue.

-- name: read
-- Return the user's table and the sidecar table, null if missing; if the user's table is missing, the names of existing
-- tables; and the database with the system identifier of the server, and the current role.
-- schema: null for the search path; table; companion: the sidecar table in the same schema, null for none.
with
found as materialized (
  select to_regclass(
    case when cast(:schema as text) is null then '' else quote_ident(:schema) || '.' end || quote_ident(:table)
  ) as oid
),
requested as materialized (
  select 1 as number, oid from found where oid is not null
  union all
  select 2, sidecar.oid
  from found
  join pg_catalog.pg_class known on known.oid = found.oid
  join pg_catalog.pg_class sidecar on sidecar.relnamespace = known.relnamespace and sidecar.relname = :companion
),
relation_json as (
  select
    requested.number,
    json_build_object(
      'oid', cast(relation.oid as bigint),
      'schema', space.nspname,
      'name', relation.relname,
      'kind', relation.relkind,
      'owner', pg_catalog.pg_get_userbyid(relation.relowner),
      'is_owned', pg_catalog.pg_has_role(relation.relowner, 'usage'),
      'owner_may_lock',
      pg_catalog.has_schema_privilege(relation.relowner, relation.relnamespace, 'usage')
      and pg_catalog.has_table_privilege(relation.relowner, relation.oid, 'select')
      and pg_catalog.has_table_privilege(relation.relowner, relation.oid, 'update'),
      'is_unlogged', relation.relpersistence = 'u',
      'has_heirs',
      relation.relkind = 'r' and exists (select from pg_catalog.pg_inherits child where child.inhparent = relation.oid),
      'has_row_security', relation.relrowsecurity,
      'forces_row_security', relation.relforcerowsecurity,
      'is_row_security_active', pg_catalog.row_security_active(relation.oid),
      'columns', (
        select json_agg(
          json_build_object(
            'name', attribute.attname,
            'type', pg_catalog.format_type(attribute.atttypid, attribute.atttypmod),
            'type_oid', cast(attribute.atttypid as bigint),
            'base', case
              when base_space.nspname = 'pg_catalog' then pg_catalog.format_type(base.oid, -1)
              else quote_ident(base_space.nspname) || '.' || quote_ident(base.typname)
            end,
            'base_oid', cast(base.oid as bigint),
            'longest', case
              when base.typname in ('varchar', 'bpchar') and base.typmod > 4 then base.typmod - 4
            end,
            'precision', case
              when base.typname in ('timestamp', 'timestamptz') and base.typmod >= 0 then base.typmod
            end,
            'collation', (
              select quote_ident(collation_space.nspname) || '.' || quote_ident(known.collname)
              from pg_catalog.pg_collation known
              join pg_catalog.pg_namespace collation_space on collation_space.oid = known.collnamespace
              join pg_catalog.pg_type kind on kind.oid = attribute.atttypid
              where known.oid = attribute.attcollation and known.oid <> kind.typcollation
            ),
            'labels', (
              select json_agg(label.enumlabel order by label.enumsortorder)
              from pg_catalog.pg_enum label
              where label.enumtypid = base.oid
            ),
            'is_nullable', not attribute.attnotnull,
            'may_reference', pg_catalog.has_column_privilege(relation.oid, attribute.attnum, 'references'),
            'is_generated', attribute.attgenerated <> '',
            'is_identity', attribute.attidentity <> '',
            'default', pg_catalog.pg_get_expr(column_default.adbin, column_default.adrelid)
          )
          order by attribute.attnum
        )
        from pg_catalog.pg_attribute attribute
        cross join lateral (
          with recursive underlying as (
            select
              kind.oid, kind.typname, kind.typnamespace, kind.typtype, kind.typbasetype,
              case when attribute.atttypmod >= 0 then attribute.atttypmod else kind.typtypmod end as typmod
            from pg_catalog.pg_type kind
            where kind.oid = attribute.atttypid
            union all
            select
              kind.oid, kind.typname, kind.typnamespace, kind.typtype, kind.typbasetype,
              case when underlying.typmod >= 0 then underlying.typmod else kind.typtypmod end
            from underlying
            join pg_catalog.pg_type kind on kind.oid = underlying.typbasetype
            where underlying.typtype = 'd'
          )
          select oid, typname, typnamespace, typmod
          from underlying
          where typtype <> 'd'
        ) base
        join pg_catalog.pg_namespace base_space on base_space.oid = base.typnamespace
        left join pg_catalog.pg_attrdef column_default
          on column_default.adrelid = attribute.attrelid and column_default.adnum = attribute.attnum
        where attribute.attrelid = relation.oid and attribute.attnum > 0 and not attribute.attisdropped
      ),
      'keys', (
        select json_agg(
          json_build_object(
            'name', key_index.relname,
            'is_primary', key.indisprimary,
            'is_deferrable', not key.indimmediate,
            'columns', (
              select json_agg(attribute.attname order by key_column.number)
              from unnest(cast(key.indkey as smallint[])) with ordinality as key_column (attnum, number)
              join pg_catalog.pg_attribute attribute
                on attribute.attrelid = relation.oid and attribute.attnum = key_column.attnum
              where key_column.number <= key.indnkeyatts
            )
          )
          order by key.indisprimary desc, key_index.relname
        )
        from pg_catalog.pg_index key
        join pg_catalog.pg_class key_index on key_index.oid = key.indexrelid
        where
          key.indrelid = relation.oid and key.indisunique and key.indisvalid and key.indpred is null
          and 0 <> all (cast(key.indkey as smallint[]))
      ),
      'foreign_keys', (
        select json_agg(
          json_build_object(
            'name', known.conname,
            'referenced_oid', cast(known.confrelid as bigint),
            'columns', (
              select json_agg(json_build_array(own.attname, referenced.attname) order by pair.number)
              from unnest(known.conkey, known.confkey) with ordinality as pair (attnum, referenced_attnum, number)
              join pg_catalog.pg_attribute own on own.attrelid = known.conrelid and own.attnum = pair.attnum
              join pg_catalog.pg_attribute referenced
                on referenced.attrelid = known.confrelid and referenced.attnum = pair.referenced_attnum
            )
          )
        )
        from pg_catalog.pg_constraint known
        where known.conrelid = relation.oid and known.contype = 'f'
      )
    ) as described
  from requested
  join pg_catalog.pg_class relation on relation.oid = requested.oid
  join pg_catalog.pg_namespace space on space.oid = relation.relnamespace
)
select json_build_array(
  (select described from relation_json where number = 1),
  (select described from relation_json where number = 2),
  case when not exists (select from relation_json where number = 1) then (
    select json_agg(existing.name)
    from (
      select
        case
          when :schema is not null or pg_catalog.pg_table_is_visible(relation.oid) then relation.relname
          else space.nspname || '.' || relation.relname
        end as name
      from pg_catalog.pg_class relation
      join pg_catalog.pg_namespace space on space.oid = relation.relnamespace
      where
        relation.relkind in ('r', 'p', 'v', 'm', 'f')
        and space.nspname not in ('pg_catalog', 'information_schema', 'pg_toast')
        and (cast(:schema as text) is null or space.nspname = :schema)
      limit 1000
    ) existing
  ) end,
  (
    select json_build_array(
      cast(oid as bigint), current_database(), (select system_identifier from pg_control_system()), current_user
    )
    from pg_catalog.pg_database
    where datname = current_database()
  )
);
