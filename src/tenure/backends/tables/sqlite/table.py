"""The operations of a table in a SQLite file. Each operation is one transaction."""

import sqlite3
import threading
from collections.abc import Collection, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, ClassVar

from tenure.backends.protocol import SWEEP, StoreClock
from tenure.backends.sqlite.backend import parse_url
from tenure.backends.sqlite.database import Database
from tenure.backends.sqlite.wait import wait
from tenure.backends.sqlite.write_transaction import WriteTransaction
from tenure.backends.tables.protocol import Finding
from tenure.backends.tables.row_batches import Reaping
from tenure.backends.tables.row_isolation import RowIsolation
from tenure.backends.tables.sqlite import claim, ddl, doctor, read, settle
from tenure.backends.tables.sqlite import move as move_operations
from tenure.backends.tables.sqlite.bound_table import BoundTable
from tenure.backends.tables.sqlite.column_checks import read_layout
from tenure.backends.tables.sqlite.decoding import read_tolerantly
from tenure.backends.tables.sqlite.layout import Layout
from tenure.backends.tables.sqlite.printable_sql import printable_sql
from tenure.backends.tables.sqlite.row_batches import SQLiteRowBatches
from tenure.backends.tables.sqlite.rows import find_claim
from tenure.core.job import JobRecord
from tenure.core.operations import (
    Claimed,
    ClaimOutlook,
    ClaimRequest,
    Enqueued,
    Extension,
    HoldStatus,
    Move,
    Moved,
    Page,
    Query,
    Reaped,
    Settled,
    Settlement,
    Stats,
)
from tenure.core.table.spec import TableSpec
from tenure.core.transitions import move_note
from tenure.errors import ConfigurationError

if TYPE_CHECKING:
    from asyncio import AbstractEventLoop


class SQLiteTable:
    """A `TableStore` in a SQLite file, for threads and processes on one machine."""

    is_exclusive: ClassVar[bool] = True

    def __init__(self, database: Database, spec: TableSpec, *, is_owner: bool = False) -> None:
        self.spec = spec
        self._database = database
        self._is_owner = is_owner
        self._bound_table = BoundTable(database, spec)
        self._rows = RowIsolation(SQLiteRowBatches(self._bound_table), spec.display_name)
        self._closing = threading.Event()

    def claim(self, request: ClaimRequest) -> Claimed:
        _, claimed = self.exchange([], request)
        return claimed

    def extend(self, extensions: Sequence[Extension]) -> list[HoldStatus]:
        return self._rows.extend(extensions)

    def settle(self, settlements: Sequence[Settlement]) -> list[Settled]:
        return self._rows.settle(settlements)

    def exchange(self, settlements: Sequence[Settlement], request: ClaimRequest) -> tuple[list[Settled], Claimed]:
        if not self.spec.is_included(request.queues, request.types):
            settled = self.settle(settlements)
            self._rows.reap(Reaping(), SWEEP)
            return settled, Claimed(jobs=[])
        return self._rows.exchange(settlements, request)

    def reap(
        self, limit: int = SWEEP, worker: str | None = None, started: Collection[str] | None = None
    ) -> list[Reaped]:
        return self._rows.reap(Reaping(worker=worker, started=started), limit)

    def move(self, ids: Sequence[str], move: Move, reason: str | None = None) -> list[Moved]:
        note = move_note(move, reason)
        with self._bound_table.writing() as (write, layout):
            return [move_operations.move(write, layout, id, move, note) for id in ids]

    def find(self, query: Query) -> Page:
        with self._bound_table.reading() as (db, now, layout):
            return read.find(db, layout, query, now)

    def stats(self) -> Stats:
        with self._bound_table.reading() as (db, now, layout):
            return read.stats(db, layout, now)

    def explain(self, id: str, queues: Sequence[str] | None, types: Sequence[str] | None) -> ClaimOutlook | None:
        with self._bound_table.reading() as (db, now, layout):
            return read.explain(db, layout, id, queues, types, now)

    def wait(self, queues: Sequence[str] | None, types: Sequence[str] | None, timeout: float) -> None:
        is_included = self.spec.is_included(queues, types)

        def claimable_in(db: sqlite3.Connection, now: int) -> float | None:
            if not is_included:
                return None
            return read.claimable_in(db, self._bound_table.usable_layout(db), now, self._rows.avoided_keys())

        wait(self._database, claimable_in, timeout, self._closing)

    def already_done(self, ids: Sequence[str]) -> list[bool]:
        if self.spec.done_if is None:
            raise ConfigurationError(
                f"table {self.spec.display_name!r} has no done_if in SQL; pass done_if= or output="
            )
        with self._bound_table.reading() as (db, now, layout):
            found = [find_claim(WriteTransaction(db, now), layout, id) for id in ids]
            return [each is not None and settle.is_done(WriteTransaction(db, now), layout, each) for each in found]

    def migrate(self, *, adopt_running_after: float | None = None, functions: bool = False) -> list[str]:
        _reject_functions(functions)
        with self._database.write_transaction() as write:
            statements = ddl.pending_statements(
                write.db, read_layout(write.db, self.spec), write.now, adopt_running_after
            )
            for each in statements:
                ddl.run_statement(write.db, self.spec, each)
            return statements

    def outstanding(self, *, adopt_running_after: float | None = None, functions: bool = False) -> list[str]:
        _reject_functions(functions)
        with self._database.read_transaction() as (db, now):
            return ddl.pending_statements(db, read_layout(db, self.spec), now, adopt_running_after)

    def sql(self) -> Mapping[str, str]:
        with self._database.read_transaction() as (db, _):
            return printable_sql(read_layout(db, self.spec))

    def check(self) -> list[Finding]:
        with self._database.read_transaction() as (db, now):
            return read_tolerantly(db, lambda: doctor.check(db, self.spec, now))

    def close(self) -> None:
        self._closing.set()
        if self._is_owner:
            self._database.close()

    @contextmanager
    def transaction(self, loop: "AbstractEventLoop | None" = None) -> Iterator[sqlite3.Connection]:  # noqa: ARG002
        """Yield a connection for the caller's statements. Commit on exit; roll back after an exception."""
        with self._database.transaction() as connection:
            yield connection

    @contextmanager
    def join(self, connection: object) -> Iterator["SQLiteTableTransactionOperations"]:
        """Yield the operations for the transaction on the caller's connection."""
        with self._bound_table.joining(connection) as (write, layout):
            yield SQLiteTableTransactionOperations(write, layout)


@dataclass(frozen=True, slots=True)
class SQLiteTableTransactionOperations:
    """The operations in one transaction of the caller."""

    write: WriteTransaction
    layout: Layout

    def enqueue(self, records: Sequence[JobRecord]) -> list[Enqueued]:
        raise ConfigurationError(
            f"cannot enqueue {len(records)} jobs into table {self.layout.spec.display_name!r}: insert rows instead"
        )

    def extend(self, extensions: Sequence[Extension]) -> list[HoldStatus]:
        return claim.extend(self.write, self.layout, extensions)

    def settle(self, settlements: Sequence[Settlement]) -> list[Settled]:
        return settle.settle(self.write, self.layout, settlements)

    def is_open(self) -> bool:
        return self.write.is_open

    def belongs_to(self, connection: object) -> bool:
        return self.write.belongs_to(connection)


def open_table(url: str, spec: TableSpec, *, clock: StoreClock | None = None) -> SQLiteTable:
    """Open a table in the file of a URL. The file gets no job store."""
    parsed = parse_url(url)
    database = Database(
        Path(parsed.path).resolve(), clock=clock, synchronous=parsed.synchronous, timeout=parsed.timeout, is_bare=True
    )
    return SQLiteTable(database, spec, is_owner=True)


def _reject_functions(functions: bool) -> None:  # noqa: FBT001
    if functions:
        raise ConfigurationError(
            "SQLite cannot store functions in the file; print the statement with `tenure sql claim` and run it from "
            "the other language"
        )
