"""Migrated schemas that tests reuse: creating and dropping a schema takes longer than most tests."""

from collections import defaultdict
from uuid import uuid4

import psycopg

from tenure.backends.postgres import PostgreSQL
from tests.servers.postgres import Server
from tests.servers.sessions import Sessions

TABLES = ("jobs", "finished", "history", "lanes", "paused", "counts", "workers", "schedules")
OTHER_TABLES = ("versions", "store")
PATIENCE = "2s"

MADE_BY_A_TEST = """
    select format('drop table %%I.%%I cascade', schemaname, tablename)
    from pg_tables
    where schemaname = %s and tablename <> all(%s)
"""

DESCRIPTION = """
    with described as (
        select concat_ws(' ', 'relation', relname, relkind, reloptions, relowner, coalesce(relacl, d.acl)) as line
        from pg_class c
        cross join acldefault(case c.relkind when 'S' then 's' else 'r' end::"char", c.relowner) d (acl)
        where c.relnamespace = to_regnamespace(%(schema)s)
        union all
        select concat_ws(' ', 'column', c.relname, a.attname, a.atttypid::regtype, a.attnotnull,
                         coalesce(a.attacl, '{}'), pg_get_expr(d.adbin, d.adrelid))
        from pg_class c
        join pg_attribute a on a.attrelid = c.oid and a.attnum > 0
        left join pg_attrdef d on d.adrelid = c.oid and d.adnum = a.attnum
        where c.relnamespace = to_regnamespace(%(schema)s)
        union all
        select concat_ws(' ', 'index', pg_get_indexdef(i.indexrelid), i.indisvalid)
        from pg_index i
        join pg_class c on c.oid = i.indexrelid
        where c.relnamespace = to_regnamespace(%(schema)s)
        union all
        select concat_ws(' ', 'constraint', conrelid::regclass, conname, pg_get_constraintdef(oid))
        from pg_constraint
        where connamespace = to_regnamespace(%(schema)s)
        union all
        select concat_ws(' ', 'trigger', pg_get_triggerdef(t.oid), t.tgenabled)
        from pg_trigger t
        join pg_class c on c.oid = t.tgrelid
        where c.relnamespace = to_regnamespace(%(schema)s)
        union all
        select concat_ws(' ', 'function', oid::regprocedure, md5(replace(prosrc, %(schema)s, 'S')), proconfig, proowner,
                         coalesce(proacl, acldefault('f', proowner)))
        from pg_proc
        where pronamespace = to_regnamespace(%(schema)s)
        union all
        select concat_ws(' ', 'schema', nspowner, coalesce(nspacl, acldefault('n', nspowner)))
        from pg_namespace
        where nspname = %(schema)s
    )
    select md5(string_agg(replace(line, %(schema)s, 'S'), E'\\n' order by replace(line, %(schema)s, 'S')))
    from described
"""


class Schemas:
    """A pool of empty schemas per server."""

    def __init__(self) -> None:
        self._empty: defaultdict[str, list[str]] = defaultdict(list)
        self._descriptions: dict[str, str] = {}
        self._sessions = Sessions()

    def take(self, server: Server) -> str:
        """Return a migrated, empty schema."""
        if not self._empty[server.url]:
            self._empty[server.url].append(self._make(server))
        return self._empty[server.url].pop()

    def give_back(self, server: Server, schema: str) -> None:
        """Empty the schema for reuse; drop the schema if another session locks it or its definitions have changed."""
        with self._sessions.one(server.url) as connection:
            try:
                with connection.transaction():
                    connection.execute(f"set local lock_timeout = '{PATIENCE}'".encode())
                    connection.execute("; ".join(f"delete from {schema}.{table}" for table in TABLES).encode())
                    for (drop,) in connection.execute(MADE_BY_A_TEST, [schema, [*TABLES, *OTHER_TABLES]]).fetchall():
                        connection.execute(drop)
                is_whole = described(schema, connection) == self._descriptions[server.url]
            except psycopg.errors.Error:
                is_whole = False
            if is_whole:
                self._empty[server.url].append(schema)
            else:
                connection.execute(f"drop schema if exists {schema} cascade".encode())

    def close(self) -> None:
        self._sessions.close()

    def _make(self, server: Server) -> str:
        schema = f"tenure_{uuid4().hex}"
        store = PostgreSQL(server.url_of(schema))
        store.migrate()
        store.close()
        if server.url not in self._descriptions:
            with self._sessions.one(server.url) as connection:
                self._descriptions[server.url] = described(schema, connection)
        return schema


def described(schema: str, connection: psycopg.Connection) -> str:
    """Return a digest of the definitions in a schema, without rows."""
    found = connection.execute(DESCRIPTION, {"schema": schema}).fetchone()
    assert found is not None
    return str(found[0])
