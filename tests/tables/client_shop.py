"""A user's database with orders and invoices, on any engine, and a `tenure.Table` over the orders."""

import inspect
import sqlite3
from abc import ABC, abstractmethod
from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path
from typing import Any
from uuid import uuid4

import psycopg

import tenure
from tests.servers.servers import Servers
from tests.servers.sessions import by_hand

WORDS: tenure.StateWords = {"queued": "pending", "running": "processing", "completed": "done"}
COLUMNS: tenure.Columns = {"state": "status", "attempts": "tries", "error": "last_error"}


class Shop(ABC):
    """A database with the tables `orders` and `invoices`, in a schema on PostgreSQL."""

    url: str
    schema: str | None = None

    def named(self, table: str) -> str:
        return table if self.schema is None else f"{self.schema}.{table}"

    def table(self, store: Any = None, **options: Any) -> tenure.Table[Any]:
        """Return a migrated table that claims orders of the source `scraper`, by number."""
        given = {
            "columns": COLUMNS,
            "states": WORDS,
            "order_by": "number",
            "output": f"{self.named('invoices')}.order_id",
        }
        where: dict[str, Any] = {"where": "source = :source", "params": {"source": "scraper"}}
        table: tenure.Table[Any] = tenure.Table(
            self.url if store is None else store, self.named("orders"), **{**where, **given, **options}
        )
        table.migrate()
        return table

    def given(self, number: int, source: str = "scraper") -> list[int]:
        """Insert orders; return their keys."""
        start = self.rows("select coalesce(max(id), 0) from {orders}")[0][0]
        ids = [start + n for n in range(1, number + 1)]
        for id in ids:
            self.rows(f"insert into {{orders}} (id, number, source, total) values ({id}, {id}, '{source}', {id}.5)")
        return ids

    def invoices(self) -> list[int]:
        return [id for (id,) in self.rows("select order_id from {invoices} order by order_id")]

    def statuses(self) -> list[str]:
        return [status for (status,) in self.rows("select status from {orders} order by id")]

    def invoice(self, connection: Any, id: int) -> None:
        """Insert an invoice in the caller's transaction."""
        connection.execute(f"insert into {self.named('invoices')} (order_id) values ({id})")

    async def invoice_awaited(self, connection: Any, id: int) -> None:
        """Insert an invoice from async code."""
        made = connection.execute(f"insert into {self.named('invoices')} (order_id) values ({id})")
        if inspect.isawaitable(made):
            await made

    @property
    def jobs_url(self) -> str:
        """The URL of a job store in the same database, removed with the shop."""
        return self.url if self.schema is None else f"{self.url}&schema={self.schema}_jobs"

    @abstractmethod
    def rows(self, statement: str) -> list[tuple[Any, ...]]:
        """Run a statement on a separate connection; return its rows."""

    @abstractmethod
    def connected(self) -> Any:
        """Open a connection as the user's program does."""


ORDERS = """
create table {orders} (
  id bigint primary key,
  number integer,
  source text,
  total numeric,
  status text not null default 'pending',
  tries integer not null default 0,
  last_error text,
  resolved_by text
)
"""
INVOICES = "create table {invoices} (order_id bigint)"


class SQLiteShop(Shop):
    def __init__(self, folder: Path) -> None:
        self._path = folder / "shop.db"
        self.url = f"sqlite:///{self._path}?synchronous=normal"
        self.rows("pragma journal_mode = wal")
        for statement in (ORDERS.replace("bigint", "integer"), INVOICES):
            self.rows(statement)

    def rows(self, statement: str) -> list[tuple[Any, ...]]:
        with closing(self.connected()) as db, db:
            return db.execute(statement.format(orders="orders", invoices="invoices")).fetchall()

    def connected(self) -> sqlite3.Connection:
        return sqlite3.connect(self._path, timeout=60)


class PostgresShop(Shop):
    def __init__(self, url: str, schema: str, connection: "psycopg.Connection[Any]") -> None:
        self.url, self.schema = url, schema
        self._connection = connection
        self.rows(f"create schema {schema}")
        for statement in (ORDERS, INVOICES):
            self.rows(statement)

    def rows(self, statement: str) -> list[tuple[Any, ...]]:
        text = statement.format(orders=self.named("orders"), invoices=self.named("invoices"))
        cursor = self._connection.execute(text.encode())
        return cursor.fetchall() if cursor.description is not None else []

    def connected(self) -> "psycopg.Connection[Any]":
        return psycopg.connect(self.url)

    def close(self) -> None:
        self.rows(f"drop schema if exists {self.schema}, {self.schema}_jobs cascade")


@contextmanager
def shop_on(engine: str, servers: Servers, folder: Path) -> Iterator[Shop]:
    """Yield a shop on an engine; remove the shop on exit."""
    if engine == "sqlite":
        yield SQLiteShop(folder)
        return
    url = servers.shared(engine).url
    with by_hand(url) as connection:
        shop = PostgresShop(url, f"shop_{uuid4().hex}", connection)
        try:
            yield shop
        finally:
            shop.close()
