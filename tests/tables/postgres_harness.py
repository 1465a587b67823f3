"""A user's table on PostgreSQL with custom column names, for the conformance suite."""

from collections import defaultdict
from typing import ClassVar
from uuid import uuid4

import psycopg

from tenure.backends.protocol import StoreClock
from tenure.backends.tables.postgres import PostgresTable, open_table
from tenure.core.table.options import build_table_spec
from tenure.core.table.spec import Columns, StateWords, TableSpec
from tenure.testing import ClaimingHarness
from tests.servers.postgres import Server
from tests.tiers import RACES

PATIENCE = "2s"

COLUMNS: Columns = {
    "state": "status",
    "leased_until": "lease expires at",
    "attempts": "attempt_count",
    "worker": "processor",
    "error": "last_error",
    "created_at": "created_at",
}
WORDS: StateWords = {
    "queued": "pending",
    "running": "in work",
    "completed": "done",
    "failed": "broken",
    "cancelled": "dropped",
}

MADE = """
create schema {schema};
create type {schema}.order_status as enum ('pending', 'in work', 'done', 'broken', 'dropped');
create table {schema}.orders (
  id uuid primary key default gen_random_uuid(),
  number bigint generated always as identity,
  source text not null,
  status {schema}.order_status not null default 'pending',
  "lease expires at" timestamptz,
  attempt_count integer,
  processor text,
  last_error text,
  created_at timestamptz not null
);
create index on {schema}.orders (created_at, number, id);
"""

GIVEN = """
insert into {schema}.orders (source, created_at)
select 'scraper', coalesce(%s, clock_timestamp())
from generate_series(1, %s)
returning id
"""


class PostgresTableHarness(ClaimingHarness):
    """Handles on one table in a separate schema, each with separate connections.

    Schemas are emptied and reused: creating one takes longer than most tests.
    """

    rounds = RACES
    _empty: ClassVar[defaultdict[tuple[str, bool], list[str]]] = defaultdict(list)

    def __init__(self, server: Server, connection: psycopg.Connection, *, is_sidecar: bool) -> None:
        self._server = server
        self._connection = connection
        self._is_sidecar = is_sidecar
        self._opened: list[PostgresTable] = []
        self._make()

    @property
    def spec(self) -> TableSpec:
        if self._is_sidecar:
            return build_table_spec(
                f"{self._schema}.orders",
                columns={"created_at": "created_at"},
                order_by="created_at, number",
                where="source = :source",
                params={"source": "scraper"},
                sidecar=True,
            )
        return build_table_spec(
            f"{self._schema}.orders",
            columns=COLUMNS,
            states=WORDS,
            order_by="created_at, number",
            where="source = :source",
            params={"source": "scraper"},
        )

    def open(self, clock: StoreClock | None = None) -> PostgresTable:
        self._opened.append(open_table(self._server.url, self._server.url, self.spec, clock=clock))
        return self._opened[-1]

    def given_jobs(self, number: int, clock: StoreClock | None = None) -> list[str]:
        now = None if clock is None else clock()
        rows = self._connection.execute(GIVEN.format(schema=self._schema).encode(), [now, number])
        return [str(id) for (id,) in rows]

    def clear(self) -> None:
        self.remove()
        self._make()

    def _make(self) -> None:
        """Reuse an emptied schema, or create one."""
        empty = self._empty[self._server.url, self._is_sidecar]
        if empty:
            self._schema = empty.pop()
            return
        self._schema = f"shop_{uuid4().hex}"
        self._connection.execute(MADE.format(schema=self._schema).encode())
        self.open().migrate()

    def remove(self) -> None:
        """Empty the tables for the next test; drop the tables if another session still uses them."""
        for each in self._opened:
            each.close()
        self._opened = []
        tables = ["orders", "tenure_orders"] if self._is_sidecar else ["orders"]
        try:
            with self._connection.transaction():
                self._connection.execute(f"set local lock_timeout = '{PATIENCE}'".encode())
                self._connection.execute("; ".join(f"delete from {self._schema}.{each}" for each in tables).encode())
        except psycopg.errors.Error:
            self._connection.execute(f"drop schema {self._schema} cascade".encode())
        else:
            self._empty[self._server.url, self._is_sidecar].append(self._schema)
