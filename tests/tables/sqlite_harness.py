"""A table in a SQLite file as a user might define it: own column names, numbers as states, text keys."""

import sqlite3
from contextlib import closing
from datetime import UTC, datetime
from functools import cache
from itertools import count
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Self

from tenure.backends.protocol import StoreClock
from tenure.backends.sqlite.database import Database
from tenure.backends.tables.sqlite import SQLiteTable
from tenure.core.table.options import build_table_spec
from tenure.core.table.spec import TableSpec
from tenure.testing import ClaimingHarness
from tests.tiers import RACES

MAPPED = build_table_spec(
    "executions",
    id="reference",
    columns={
        "state": "status",
        "leased_until": "locked_until",
        "worker": "worker_id",
        "attempts": "attempt_count",
        "error": "last_error",
        "completed_at": "finished_at",
        "run_at": "not_before",
        "priority": "priority",
        "created_at": "created_at",
    },
    states={"queued": 0, "running": 1, "completed": 2, "failed": 3, "cancelled": 4},
)
BESIDE = build_table_spec(
    "executions",
    id="reference",
    columns={"priority": "priority", "created_at": "created_at"},
    where="status = 0",
    sidecar=True,
)

TABLE = """
create table executions (
  reference text primary key,
  status integer not null default 0,
  priority integer not null default 0,
  attempt_count integer not null default 0,
  worker_id text,
  last_error text,
  not_before text,
  finished_at text,
  created_at text not null,
  command text not null
)
"""


class SQLiteTableHarness(ClaimingHarness):
    """Handles on one table, with separate connections."""

    rounds = RACES

    def __init__(self, *, is_sidecar: bool) -> None:
        self.spec: TableSpec = BESIDE if is_sidecar else MAPPED
        self._folder = TemporaryDirectory(prefix="tenure-table-")
        self._opened: list[SQLiteTable] = []
        self._numbers = count()
        self._file = 0
        self._make()

    @property
    def path(self) -> Path:
        return Path(self._folder.name) / f"{self._file}.db"

    def open(self, clock: StoreClock | None = None) -> SQLiteTable:
        # Durability is tested elsewhere; these tests run many small transactions.
        database = Database(self.path, clock=clock, synchronous="normal", timeout=60, is_bare=True)
        self._opened.append(SQLiteTable(database, self.spec, is_owner=True))
        return self._opened[-1]

    def given_jobs(self, number: int, clock: StoreClock | None = None) -> list[str]:
        ids = [f"e-{next(self._numbers):06}" for _ in range(number)]
        now = datetime.now(UTC) if clock is None else clock()
        values = [(id, f"{now:%Y-%m-%dT%H:%M:%S.%fZ}") for id in ids]
        # Under the lock: concurrent writers are tested elsewhere.
        with self._writer.transaction() as db:
            db.executemany("insert into executions (reference, created_at, command) values (?, ?, 'true')", values)
        return ids

    def clear(self) -> None:
        self.close()
        self._file += 1
        self._make()

    def close(self) -> None:
        for each in self._opened:
            each.close()
        self._opened = []

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()
        self._folder.cleanup()

    def _make(self) -> None:
        self.path.write_bytes(file_with(self.spec))
        self._writer = self.open()


@cache
def file_with(spec: TableSpec) -> bytes:
    """Return a file with an empty, migrated table."""
    with TemporaryDirectory() as folder:
        path = Path(folder) / "new.db"
        with closing(sqlite3.connect(path)) as db, db:
            db.execute("pragma journal_mode = wal")
            db.execute(TABLE)
        with closing(
            SQLiteTable(Database(path, clock=None, synchronous="normal", timeout=60, is_bare=True), spec, is_owner=True)
        ) as table:
            table.migrate()
        return path.read_bytes()
