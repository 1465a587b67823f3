"""Tables of several kinds in a SQLite file, and helpers for the tests."""

import sqlite3
from collections.abc import Iterator, Sequence
from contextlib import closing, contextmanager
from pathlib import Path
from typing import Any

from tenure.backends.protocol import StoreClock
from tenure.backends.sqlite.database import Database
from tenure.backends.tables.sqlite import SQLiteTable
from tenure.core.table.options import build_table_spec

ORDERS = "create table orders (id integer primary key, status text, source text, created_at text)"
STATES = {"queued": "pending", "running": "processing", "completed": "done"}
MAPPED: dict[str, Any] = {"columns": {"state": "status"}, "states": STATES}
BESIDE: dict[str, Any] = {"sidecar": True, "where": "status = 'pending'"}
KINDS = {"mapped": MAPPED, "sidecar": BESIDE}


def execute(path: Path, *statements: str) -> None:
    """Run statements on the file, as a user's program would."""
    with closing(sqlite3.connect(path, timeout=60)) as db, db:
        for each in statements:
            db.execute(each)


def rows(path: Path, statement: str) -> list[Any]:
    """Run a query on a read-only connection, which cannot block writers."""
    with closing(sqlite3.connect(f"file:{path}?mode=ro", uri=True, timeout=60)) as db:
        return db.execute(statement).fetchall()


def given_orders(path: Path, *statuses: str | None) -> None:
    """Create a table of orders with one order per status."""
    execute(path, "pragma journal_mode = wal", ORDERS)
    with closing(sqlite3.connect(path)) as db, db:
        values = [(status, "scraper", f"2026-01-01 10:00:{n:02}") for n, status in enumerate(statuses)]
        db.executemany("insert into orders (status, source, created_at) values (?, ?, ?)", values)


@contextmanager
def opened(
    path: Path, name: str = "orders", *, clock: StoreClock | None = None, is_migrated: bool = True, **options: Any
) -> Iterator[SQLiteTable]:
    """Yield a table with these options, migrated by default."""
    database = Database(path, clock=clock, synchronous="normal", timeout=60, is_bare=True)
    table = SQLiteTable(database, build_table_spec(name, **options), is_owner=True)
    try:
        if is_migrated:
            table.migrate()
        yield table
    finally:
        table.close()


def plan(path: Path, statement: str, values: Any, functions: Sequence[str] = ("tenure_moment",)) -> str:
    """Return the query plan of a statement."""
    with closing(sqlite3.connect(path)) as db:
        for name in functions:
            db.create_function(name, 1, str, deterministic=True)
        return "\n".join(row[3] for row in db.execute(f"explain query plan {statement}", values))
