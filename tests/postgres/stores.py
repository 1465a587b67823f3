"""A schema for a store, and the server's statistics of it."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any
from uuid import uuid4

import psycopg

from tenure.backends.postgres import PostgreSQL
from tenure.backends.postgres.pipeline import BoundQuery
from tenure.backends.postgres.statements import make_statement
from tenure.backends.protocol import StoreClock
from tests.servers.sessions import by_hand

FLUSH = make_statement("select to_json(true) from pg_stat_force_next_flush()")

BLOCKS = """
    select sum(heap_blks_hit + heap_blks_read + coalesce(idx_blks_hit, 0) + coalesce(idx_blks_read, 0))
    from pg_statio_all_tables
    where schemaname = %s
"""


@dataclass(frozen=True, slots=True)
class Place:
    """A schema on a server."""

    server: str
    schema: str

    @property
    def url(self) -> str:
        return f"{self.server}{'&' if '?' in self.server else '?'}schema={self.schema}"

    def open(self, options: str = "", *, clock: StoreClock | None = None) -> PostgreSQL:
        """Open the store; `options` are appended to the URL."""
        return PostgreSQL(self.url + options, clock=clock)

    def execute(self, text: str, *values: Any) -> list[tuple[Any, ...]]:
        """Run a statement on the tables; S stands for the schema."""
        with by_hand(self.server) as connection:
            cursor = connection.execute(text.replace("S.", f"{self.schema}.").encode(), values or None)
            rows = cursor.fetchall() if cursor.description else []
            # Flush the statistics of this session now, so that they do not arrive later, during a measurement.
            connection.execute("select pg_stat_force_next_flush()")
            return rows

    @contextmanager
    def begun(self, text: str) -> Iterator[psycopg.Connection]:
        """Run a statement in a transaction that stays open, and is rolled back at the end of the block."""
        with psycopg.connect(self.server) as connection:
            connection.execute(text.replace("S.", f"{self.schema}.").encode())
            yield connection
            connection.rollback()

    def buffers(self, store: PostgreSQL, action: Callable[[], object]) -> int:
        """Return the number of pages of tables and indexes touched by the server."""
        before = self._touched(store)
        action()
        return self._touched(store) - before

    def _touched(self, store: PostgreSQL) -> int:
        # A session reports its statistics when it becomes idle.
        store.database.execute([BoundQuery(FLUSH)])
        ((number,),) = self.execute(BLOCKS, self.schema)
        return int(number)


@contextmanager
def new_place(server: str) -> Iterator[Place]:
    place = Place(server, f"tenure_{uuid4().hex}")
    try:
        yield place
    finally:
        place.execute(f"drop schema if exists {place.schema} cascade")
