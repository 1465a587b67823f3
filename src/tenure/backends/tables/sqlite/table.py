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
from tenure.backends.sqlite.busy_retry import primary_code
from tenure.backends.sqlite.database import Database
from tenure.backends.sqlite.wait import wait
from tenure.backends.sqlite.write_transaction import WriteTransaction
from tenure.backends.tables.protocol import Finding
from tenure.backends.tables.sqlite import claim, ddl, doctor, read, settle
from tenure.backends.tables.sqlite import move as move_operations
from tenure.backends.tables.sqlite.catalogue import schema_version
from tenure.backends.tables.sqlite.column_checks import check_conditions, read_layout
from tenure.backends.tables.sqlite.layout import Layout
from tenure.backends.tables.sqlite.printable_sql import printable_sql
from tenure.backends.tables.sqlite.rows import find_row
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
    Settlement,
    Stats,
)
from tenure.core.table.spec import TableSpec, quote_identifier
from tenure.core.transitions import move_note
from tenure.errors import ConfigurationError

if TYPE_CHECKING:
    from asyncio import AbstractEventLoop


MOST_ERRORS_LISTED = 3
"""Maximum number of errors that one message lists."""


class SQLiteTable:
    """A `TableStore` in a SQLite file, for threads and processes on one machine."""

    is_exclusive: ClassVar[bool] = True

    def __init__(self, database: Database, spec: TableSpec, *, is_owner: bool = False) -> None:
        self.spec = spec
        self._database = database
        self._is_owner = is_owner
        self._layout: Layout | None = None
        self._closing = threading.Event()

    def claim(self, request: ClaimRequest) -> Claimed:
        with self._writing() as (write, layout):
            return claim.claim(write, layout, request)

    def extend(self, extensions: Sequence[Extension]) -> list[HoldStatus]:
        with self._writing() as (write, layout):
            return [claim.extend(write, layout, each) for each in extensions]

    def settle(self, settlements: Sequence[Settlement]) -> list[bool]:
        with self._writing() as (write, layout):
            return settle.settle(write, layout, settlements)

    def exchange(self, settlements: Sequence[Settlement], request: ClaimRequest) -> tuple[list[bool], Claimed]:
        with self._writing() as (write, layout):
            return settle.settle(write, layout, settlements), claim.claim(write, layout, request)

    def reap(
        self, limit: int = SWEEP, worker: str | None = None, started: Collection[str] | None = None
    ) -> list[Reaped]:
        with self._writing() as (write, layout):
            if worker is None:
                return settle.reap_expired(write, layout, limit)
            return settle.reap_worker(write, layout, worker, started, limit)

    def move(self, ids: Sequence[str], move: Move, reason: str | None = None) -> list[Moved]:
        note = move_note(move, reason)
        with self._writing() as (write, layout):
            return [move_operations.move(write, layout, id, move, note) for id in ids]

    def find(self, query: Query) -> Page:
        with self._reading() as (db, now, layout):
            return read.find(db, layout, query, now)

    def stats(self) -> Stats:
        with self._reading() as (db, now, layout):
            return read.stats(db, layout, now)

    def explain(self, id: str, queues: Sequence[str] | None, types: Sequence[str] | None) -> ClaimOutlook | None:
        with self._reading() as (db, now, layout):
            return read.explain(db, layout, id, queues, types, now)

    def wait(self, queues: Sequence[str] | None, types: Sequence[str] | None, timeout: float) -> None:
        includes_table = all(names is None or self.spec.label in names for names in (queues, types))

        def claimable_in(db: sqlite3.Connection, now: int) -> float | None:
            return read.claimable_in(db, self._usable_layout(db), now) if includes_table else None

        wait(self._database, claimable_in, timeout, self._closing)

    def already_done(self, ids: Sequence[str]) -> list[bool]:
        if self.spec.done_if is None:
            raise ConfigurationError(
                f"table {self.spec.display_name!r} has no done_if in SQL; pass done_if= or output="
            )
        with self._reading() as (db, now, layout):
            found = [find_row(WriteTransaction(db, now), layout, id) for id in ids]
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
        with self._database.read_transaction() as (db, _):
            return doctor.check(db, self.spec)

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
        if self._layout is None:
            # Raise for an unusable table before touching the caller's connection.
            with self._reading():
                pass
        key = quote_identifier(self.spec.key[0])
        lock_statement = f"update main.{quote_identifier(self.spec.name)} set {key} = {key} where false"  # noqa: S608 - quoted
        with self._database.caller_transaction(connection, lock_statement) as write, self._translated_errors():
            yield SQLiteTableTransactionOperations(write, self._usable_layout(write.db, is_committed=False))

    @contextmanager
    def _writing(self) -> Iterator[tuple[WriteTransaction, Layout]]:
        with self._database.write_transaction() as write, self._translated_errors():
            yield write, self._usable_layout(write.db)

    @contextmanager
    def _reading(self) -> Iterator[tuple[sqlite3.Connection, int, Layout]]:
        with self._database.read_transaction() as (db, now), self._translated_errors():
            yield db, now, self._usable_layout(db)

    @contextmanager
    def _translated_errors(self) -> Iterator[None]:
        """Translate errors caused by the table itself to `ConfigurationError`: a retry would fail again."""
        try:
            yield
        except sqlite3.IntegrityError as exc:
            raise ConfigurationError(
                f"table {self.spec.display_name!r} rejects a write of tenure: {exc}; check the table with "
                "`tenure doctor`"
            ) from exc
        except sqlite3.OperationalError as exc:
            if primary_code(exc) != sqlite3.SQLITE_ERROR:
                raise
            raise ConfigurationError(
                f"a statement on table {self.spec.display_name!r} failed: {exc}; check where, done_if and the triggers"
            ) from exc

    def _usable_layout(self, db: sqlite3.Connection, *, is_committed: bool = True) -> Layout:
        """Return the layout that this connection sees; raise if rows cannot be claimed."""
        layout = self._layout
        if layout is None or layout.schema_version != schema_version(db):
            layout = read_layout(db, self.spec)
            if layout.errors:
                raise _unusable_error(self.spec, layout.errors)
            check_conditions(db, layout)
            if is_committed:
                self._layout = layout
        return layout


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
        return [claim.extend(self.write, self.layout, each) for each in extensions]

    def settle(self, settlements: Sequence[Settlement]) -> list[bool]:
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


def _unusable_error(spec: TableSpec, errors: Sequence[Finding]) -> ConfigurationError:
    texts = [each.text for each in errors[:MOST_ERRORS_LISTED]]
    texts += [f"and {len(errors) - MOST_ERRORS_LISTED} more"] if len(errors) > MOST_ERRORS_LISTED else []
    remedies = "; ".join(dict.fromkeys(str(each.remedy) for each in errors))
    return ConfigurationError(f"cannot claim rows of table {spec.display_name!r}: {', '.join(texts)}; {remedies}")


def _reject_functions(functions: bool) -> None:  # noqa: FBT001
    if functions:
        raise ConfigurationError(
            "SQLite cannot store functions in the file; print the statement with `tenure sql claim` and run it from "
            "the other language"
        )
