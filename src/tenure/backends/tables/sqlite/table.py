"""The operations of a table in a SQLite file, each one transaction."""

import sqlite3
import threading
from collections.abc import Collection, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, ClassVar

from tenure.backends.protocol import SWEEP, Clock
from tenure.backends.sqlite.backend import place_of
from tenure.backends.sqlite.busy_retry import code_of
from tenure.backends.sqlite.database import Database
from tenure.backends.sqlite.wait import wait
from tenure.backends.sqlite.write_transaction import Write
from tenure.backends.tables.protocol import Finding
from tenure.backends.tables.sqlite import claim as claiming
from tenure.backends.tables.sqlite import ddl, doctor
from tenure.backends.tables.sqlite import move as moving
from tenure.backends.tables.sqlite import read as reading
from tenure.backends.tables.sqlite import settle as settling
from tenure.backends.tables.sqlite.catalogue import schema_version
from tenure.backends.tables.sqlite.column_checks import check_conditions, fitted
from tenure.backends.tables.sqlite.layout import Layout
from tenure.backends.tables.sqlite.printable_sql import texts
from tenure.backends.tables.sqlite.rows import row_of
from tenure.core.job import Entry
from tenure.core.operations import (
    Claimed,
    ClaimRequest,
    Enqueued,
    Extension,
    Holding,
    Move,
    Moved,
    Page,
    Query,
    Reaped,
    Settlement,
    Standing,
    Stats,
)
from tenure.core.table.spec import TableSpec, quoted
from tenure.core.transitions import move_note
from tenure.errors import ConfigurationError

if TYPE_CHECKING:
    from asyncio import AbstractEventLoop


MOST_TOLD = 3
"""How many faults an error names."""


class SQLiteTable:
    """A `TableStore` in a file, for the threads and processes of one machine."""

    is_exclusive: ClassVar[bool] = True

    def __init__(self, database: Database, spec: TableSpec, *, is_owner: bool = False) -> None:
        self.spec = spec
        self._database = database
        self._is_owner = is_owner
        self._layout: Layout | None = None
        self._closing = threading.Event()

    def claim(self, request: ClaimRequest) -> Claimed:
        with self._writing() as (write, layout):
            return claiming.claim(write, layout, request)

    def extend(self, extensions: Sequence[Extension]) -> list[Holding]:
        with self._writing() as (write, layout):
            return [claiming.extend(write, layout, each) for each in extensions]

    def settle(self, settlements: Sequence[Settlement]) -> list[bool]:
        with self._writing() as (write, layout):
            return settling.settle(write, layout, settlements)

    def exchange(self, settlements: Sequence[Settlement], request: ClaimRequest) -> tuple[list[bool], Claimed]:
        with self._writing() as (write, layout):
            return settling.settle(write, layout, settlements), claiming.claim(write, layout, request)

    def reap(
        self, limit: int = SWEEP, worker: str | None = None, started: Collection[str] | None = None
    ) -> list[Reaped]:
        with self._writing() as (write, layout):
            if worker is None:
                return settling.reap_expired(write, layout, limit)
            return settling.reap_worker(write, layout, worker, started, limit)

    def move(self, ids: Sequence[str], move: Move, reason: str | None = None) -> list[Moved]:
        note = move_note(move, reason)
        with self._writing() as (write, layout):
            return [moving.move(write, layout, id, move, note) for id in ids]

    def find(self, query: Query) -> Page:
        with self._reading() as (db, now, layout):
            return reading.find(db, layout, query, now)

    def stats(self) -> Stats:
        with self._reading() as (db, now, layout):
            return reading.stats(db, layout, now)

    def standing(self, id: str, queues: Sequence[str] | None, types: Sequence[str] | None) -> Standing | None:
        with self._reading() as (db, now, layout):
            return reading.standing(db, layout, id, queues, types, now)

    def wait(self, queues: Sequence[str] | None, types: Sequence[str] | None, timeout: float) -> None:
        is_asked_for = all(asked is None or self.spec.label in asked for asked in (queues, types))

        def claimable_in(db: sqlite3.Connection, now: int) -> float | None:
            return reading.claimable_in(db, self._usable(db), now) if is_asked_for else None

        wait(self._database, claimable_in, timeout, self._closing)

    def already_done(self, ids: Sequence[str]) -> list[bool]:
        if self.spec.done_if is None:
            raise ConfigurationError(f"table {self.spec.shown!r} has no done_if in SQL, so nothing tells what is done")
        with self._reading() as (db, now, layout):
            found = [row_of(Write(db, now), layout, id) for id in ids]
            return [each is not None and settling.is_done(Write(db, now), layout, each) for each in found]

    def migrate(self, *, adopt_running_after: float | None = None, functions: bool = False) -> list[str]:
        _refuse_functions(functions)
        with self._database.writing() as write:
            statements = ddl.outstanding(write.db, fitted(write.db, self.spec), write.now, adopt_running_after)
            for each in statements:
                ddl.run(write.db, self.spec, each)
            return statements

    def outstanding(self, *, adopt_running_after: float | None = None, functions: bool = False) -> list[str]:
        _refuse_functions(functions)
        with self._database.reading() as (db, now):
            return ddl.outstanding(db, fitted(db, self.spec), now, adopt_running_after)

    def texts(self) -> Mapping[str, str]:
        with self._database.reading() as (db, _):
            return texts(fitted(db, self.spec))

    def examine(self) -> list[Finding]:
        with self._database.reading() as (db, _):
            return doctor.examine(db, self.spec)

    def close(self) -> None:
        self._closing.set()
        if self._is_owner:
            self._database.close()

    @contextmanager
    def transaction(self, loop: "AbstractEventLoop | None" = None) -> Iterator[sqlite3.Connection]:  # noqa: ARG002
        """Give a connection on the file for the caller's statements: committed on leaving, or undone."""
        with self._database.transaction() as connection:
            yield connection

    @contextmanager
    def joined(self, connection: object) -> Iterator["Joined"]:
        """Give the operations that can be part of the transaction on a connection of the caller's."""
        if self._layout is None:
            # A table that cannot be used is told so before anything is tried on the connection.
            with self._reading():
                pass
        key = quoted(self.spec.key[0])
        to_write = f"update main.{quoted(self.spec.name)} set {key} = {key} where false"  # noqa: S608 - quoted
        with self._database.joining(connection, to_write) as write, self._refusals_told():
            yield Joined(write, self._usable(write.db, is_committed=False))

    @contextmanager
    def _writing(self) -> Iterator[tuple[Write, Layout]]:
        with self._database.writing() as write, self._refusals_told():
            yield write, self._usable(write.db)

    @contextmanager
    def _reading(self) -> Iterator[tuple[sqlite3.Connection, int, Layout]]:
        with self._database.reading() as (db, now), self._refusals_told():
            yield db, now, self._usable(db)

    @contextmanager
    def _refusals_told(self) -> Iterator[None]:
        """Raise what the table itself refuses as what it is: another try would be refused as well."""
        try:
            yield
        except sqlite3.IntegrityError as exc:
            raise ConfigurationError(
                f"table {self.spec.shown!r} refuses what tenure writes: {exc}; see what `tenure doctor` says of it"
            ) from exc
        except sqlite3.OperationalError as exc:
            if code_of(exc) != sqlite3.SQLITE_ERROR:
                raise
            raise ConfigurationError(
                f"a statement on table {self.spec.shown!r} fails: {exc}; see where, done_if and its triggers"
            ) from exc

    def _usable(self, db: sqlite3.Connection, *, is_committed: bool = True) -> Layout:
        """Return the layout of the table as this connection sees it, or raise if it cannot be claimed from."""
        layout = self._layout
        if layout is None or layout.schema_version != schema_version(db):
            layout = fitted(db, self.spec)
            if layout.faults:
                raise _unusable(self.spec, layout.faults)
            check_conditions(db, layout)
            if is_committed:
                self._layout = layout
        return layout


@dataclass(frozen=True, slots=True)
class Joined:
    """What can be done in a transaction of the caller's."""

    write: Write
    layout: Layout

    def enqueue(self, entries: Sequence[Entry]) -> list[Enqueued]:
        raise ConfigurationError(
            f"table {self.layout.spec.shown!r} is the user's own; insert a row in place of {len(entries)} jobs"
        )

    def extend(self, extensions: Sequence[Extension]) -> list[Holding]:
        return [claiming.extend(self.write, self.layout, each) for each in extensions]

    def settle(self, settlements: Sequence[Settlement]) -> list[bool]:
        return settling.settle(self.write, self.layout, settlements)

    def is_open(self) -> bool:
        return self.write.is_open

    def is_of(self, connection: object) -> bool:
        return self.write.is_of(connection)


def open_table(url: str, spec: TableSpec, *, clock: Clock | None = None) -> SQLiteTable:
    """Open the table in the file that a URL names; nothing else is made there."""
    place = place_of(url)
    database = Database(
        Path(place.path).resolve(), clock=clock, synchronous=place.synchronous, timeout=place.timeout, is_bare=True
    )
    return SQLiteTable(database, spec, is_owner=True)


def _unusable(spec: TableSpec, faults: Sequence[Finding]) -> ConfigurationError:
    texts = [each.text for each in faults[:MOST_TOLD]]
    texts += [f"and {len(faults) - MOST_TOLD} more"] if len(faults) > MOST_TOLD else []
    remedies = "; ".join(dict.fromkeys(str(each.remedy) for each in faults))
    return ConfigurationError(f"table {spec.shown!r} cannot be claimed from: {', '.join(texts)}; {remedies}")


def _refuse_functions(functions: bool) -> None:  # noqa: FBT001
    if functions:
        raise ConfigurationError(
            "SQLite has no functions that are stored in the file; read the statement with `tenure sql claim` and run "
            "it from the other language"
        )
