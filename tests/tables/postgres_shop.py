"""A schema for the tables of one test."""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any
from uuid import uuid4

import psycopg

from tenure.backends.protocol import StoreClock
from tenure.backends.tables.postgres import PostgresTable, open_table
from tenure.backends.tables.postgres.bound_table import BoundTable
from tenure.backends.tables.postgres.layout import Layout
from tenure.core.operations import Query
from tenure.core.table.options import build_table_spec
from tenure.core.table.spec import TableSpec
from tests.servers.postgres import Server
from tests.servers.sessions import by_hand

ORDERS = "create table S.orders (id bigint primary key, source text, status text not null default 'queued')"
"""The table that most tests use."""


class Shop:
    """A schema; `execute` replaces S by its name."""

    def __init__(self, server: Server, connection: psycopg.Connection) -> None:
        self.url = server.url
        self.schema = f"shop_{uuid4().hex}"
        self.connection = connection
        self._opened: list[PostgresTable] = []

    def execute(self, statement: str, *values: Any) -> list[tuple[Any, ...]]:
        cursor = self.connection.execute(self.named(statement).encode(), values or None)
        return cursor.fetchall() if cursor.description else []

    def named(self, statement: str) -> str:
        return statement.replace("S.", f"{self.schema}.")

    def spec(self, name: str = "orders", **options: Any) -> TableSpec:
        return build_table_spec(name, schema=self.schema, **options)

    def open(
        self, name: str = "orders", *, clock: StoreClock | None = None, url: str | None = None, **options: Any
    ) -> PostgresTable:
        """Open a table without migrating it."""
        url = url or self.url
        self._opened.append(open_table(url, url, self.spec(name, **options), clock=clock))
        return self._opened[-1]

    def fit(self, name: str = "orders", **options: Any) -> PostgresTable:
        """Open a table and add missing columns, without indexes."""
        table = self.open(name, **options)
        for statement in statements_of(BoundTable(table._database, table.spec).read_layout()):
            self.connection.execute(statement.encode())
        return table

    def close(self) -> None:
        for each in self._opened:
            each.close()
        self.connection.execute(f"drop schema {self.schema} cascade".encode())


@contextmanager
def new_shop(server: Server) -> Iterator[Shop]:
    with by_hand(server.url) as connection:
        shop = Shop(server, connection)
        connection.execute(f"create schema {shop.schema}".encode())
        try:
            yield shop
        finally:
            shop.close()


def statements_of(layout: Layout) -> list[str]:
    """Return the statement that adds the role columns or the sidecar table."""
    if layout.spec.is_sidecar and layout.catalogue.sidecar is None:
        return [layout.create_sidecar_statement()]
    return [layout.add_columns_statement(layout.missing)] if layout.missing else []


def shown(table: PostgresTable, **conditions: Any) -> list[tuple[str, str]]:
    """Return the ids and states of the jobs, in order."""
    jobs = table.find(Query(newest_first=False, **conditions)).jobs
    return [(job.id, job.state.value) for job in jobs]
