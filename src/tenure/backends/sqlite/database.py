"""One file, as this process has it open: a connection that writes and one that reads.

Whoever writes holds a lock of threads and the lock of processes from before the transaction begins until it is
committed. Opening, which may write as well, is done under the same. Reading waits for nobody. A connection that an
interrupt left in a transaction is brought out of it before it is used again.

A bare one is the user's own: the file has to be there, and nothing is made or set in it.
"""

import gc
import os
import sqlite3
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager, suppress
from contextvars import ContextVar
from datetime import UTC, datetime
from pathlib import Path
from typing import NamedTuple, TypeVar

from tenure.backends.protocol import Clock
from tenure.backends.sqlite import errors as trouble
from tenure.backends.sqlite import file_checks as place
from tenure.backends.sqlite import forking as forks
from tenure.backends.sqlite import library
from tenure.backends.sqlite.busy_retry import is_busy, patiently
from tenure.backends.sqlite.connect import Synchronous, connect, is_in_wal_mode, open_file, warn_of_lost_commits
from tenure.backends.sqlite.guarded_connection import OneTransaction
from tenure.backends.sqlite.leaked_connections import abandon
from tenure.backends.sqlite.timestamps import microseconds
from tenure.backends.sqlite.write_lock import Turn
from tenure.backends.sqlite.write_transaction import Write
from tenure.connections.sqlite import joined
from tenure.errors import ConfigurationError, StoreUnavailable, TenureError

C = TypeVar("C", bound=sqlite3.Connection)

TO_WRITE = "update tenure_lanes set due = due where false"

AT_A_FORK, AT_THE_END = 2.0, 0.1
"""Seconds that the others are waited for before everything is closed."""


class Handle(NamedTuple):
    """A connection, and the file that it was opened on, whatever has its name by now."""

    db: sqlite3.Connection
    identity: place.Identity | None


class Inside(NamedTuple):
    """A transaction of a file, in whose block the present code runs, or did."""

    database: "Database"
    transaction: OneTransaction


_inside: ContextVar[tuple[Inside, ...]] = ContextVar("inside these transactions", default=())


class Database:
    def __init__(
        self, path: Path, *, clock: Clock | None, synchronous: Synchronous, timeout: float, is_bare: bool = False
    ) -> None:
        self.path = path
        self._is_bare = is_bare
        self._clock = clock or _wall_clock
        self._synchronous = synchronous
        self._timeout = timeout
        self._was_open = False
        self.schema_found = 0
        self._begin()
        forks.watch(self)

    def _begin(self) -> None:
        self._process = os.getpid()
        # Who takes both takes the one for reading first.
        self._reading = threading.Lock()
        self._turn = Turn(self.path, self._timeout)
        self._held: list[threading.Lock] = []
        self._reader: Handle | None = None
        self._writer: Handle | None = None
        self._transaction: OneTransaction | None = None
        self._pulse: tuple[float, int] | None = None
        self._is_carried_over = False

    @contextmanager
    def writing(self) -> Iterator[Write]:
        """Give a transaction that nobody else writes beside; it is committed on leaving, undone by an exception."""
        with self._alone() as ends_at, self._told(self._drop_writer):
            db = self._for_writing(ends_at)
            try:
                patiently(db.execute, "begin immediate", ends_at)
                write = Write(db, self.now())
                yield write
                write.flush()
                patiently(db.execute, "commit", ends_at)
            finally:
                try:
                    _roll_back(db)
                except BaseException:
                    _roll_back(db)
                    raise

    @contextmanager
    def reading(self) -> Iterator[tuple[sqlite3.Connection, int]]:
        """Give a connection that sees the file at one moment, and the moment."""
        with self._reading, self._told(self._drop_reader):
            db = self._for_reading()
            try:
                db.execute("begin")
                yield db, self.now()
            finally:
                _roll_back(db)

    def version(self, age: float = 0.0) -> int:
        """Return a number that is another one when anyone has committed, as it was at most `age` seconds ago."""
        if (pulse := self._pulse) is not None and time.monotonic() - pulse[0] < age:
            return pulse[1]
        with self._reading, self._told(self._drop_reader):
            read_at = time.monotonic()
            (version,) = self._for_reading().execute("pragma data_version").fetchone()
            self._pulse = read_at, int(version)
            return int(version)

    @contextmanager
    def transaction(self) -> Iterator[sqlite3.Connection]:
        """Give a connection of its own in a transaction that writes, for the caller's statements.

        What these raise is the caller's, and goes on as it is.
        """
        with self._alone() as ends_at:
            with self._told(self._drop_writer):
                self._for_writing(ends_at)
                db = self._transaction = self._connect(ends_at, OneTransaction)
            token = _inside.set((*_inside.get(), Inside(self, db)))
            try:
                with self._told(self._drop_writer):
                    db.begin(ends_at)
                yield db
                self._refuse_if_carried_over()
                with self._told(self._drop_writer):
                    db.end(time.monotonic() + self._timeout)
            finally:
                try:
                    self._end_transaction(db)
                except BaseException:
                    self._end_transaction(db)
                    raise
                with suppress(ValueError):  # left in another context than it was entered in
                    _inside.reset(token)

    @contextmanager
    def joining(self, connection: object, to_write: str = TO_WRITE) -> Iterator[Write]:
        """Give a part of the transaction on a connection of the caller's, who commits it.

        `to_write` is a statement that changes nothing, but takes the place of a writer.
        """
        # It may be the first to use the file, and the tables have to be there.
        self._identity_of_the_writer()
        try:
            with joined(connection, self.path, to_write) as db:
                write = Write(db, self.now())
                yield write
                write.flush()
                if not isinstance(db, OneTransaction) and is_in_wal_mode(db):
                    warn_of_lost_commits(
                        self.path, "a connection of your own writes to this file without tenure's lock"
                    )
        except sqlite3.Error as exc:
            raise trouble.of_the_caller(self.path, exc) from exc

    def close(self) -> None:
        """Close the connections, and wait at most the timeout for a thread that uses one.

        A signal that arrives just as a block ends leaves the block's lock held while the exception lives, and the
        exception may be what calls this: a wait without a limit would not end.
        """
        self._refuse_inside_a_transaction()
        self._close_within(self._timeout)

    def finish(self) -> None:
        """Close the connections, unless a thread uses one."""
        self._close_within(AT_THE_END)

    def now(self) -> int:
        return microseconds(self._clock())

    def before_fork(self) -> None:
        if self._transaction is None and self._hold_threads(AT_A_FORK):
            self._close(AT_A_FORK)

    def after_fork_in_parent(self) -> None:
        self._let_threads_go()

    def after_fork_in_child(self) -> None:
        left_open = [each.db for each in (self._reader, self._writer) if each is not None]
        if self._transaction is not None:
            left_open.append(self._transaction)
        for db in left_open:
            abandon(db)
        self._turn.processes.close()
        self._begin()
        self._is_carried_over = bool(left_open)

    def __del__(self) -> None:
        with suppress(Exception):
            self.finish()

    @contextmanager
    def _alone(self) -> Iterator[float]:
        """Hold the file against every other writer; give the moment until which the others may be waited for."""
        self._refuse_if_carried_over()
        self._refuse_inside_a_transaction()
        if self._writer is None:
            library.check(sqlite3.sqlite_version_info)
            place.check(self.path)
        with self._turn.taken() as ends_at:
            yield ends_at

    def _end_transaction(self, db: OneTransaction) -> None:
        # In a child of a fork it is not ours any more.
        if self._is_here() and self._transaction is db:
            db.undo()
            self._transaction = None

    @contextmanager
    def _told(self, drop: Callable[[], None]) -> Iterator[None]:
        """Raise what SQLite says in our own words, and go on with a new connection after that."""
        try:
            yield
        except sqlite3.Error as exc:
            if not is_busy(exc):
                drop()
            raise trouble.unavailable(self.path, exc, self._timeout) from exc

    def _for_writing(self, ends_at: float) -> sqlite3.Connection:
        """Return the connection that writes; whoever calls it is alone."""
        if self._writer is None:
            try:
                db, found = open_file(
                    self.path, self._synchronous, ends_at, may_create=not self._was_open, is_bare=self._is_bare
                )
            except BaseException:
                if not self._was_open:
                    self._turn.processes.remove()
                raise
            self._writer = Handle(db, place.identity(self.path))
            self.schema_found = self.schema_found if self._was_open else found
            self._was_open = True
        if place.identity(self.path) != self._writer.identity:
            abandon(self._writer.db)
            self._writer = None
            raise trouble.replaced(self.path)
        _roll_back(self._writer.db)
        return self._writer.db

    def _for_reading(self) -> sqlite3.Connection:
        """Return the connection that reads; whoever calls it holds the lock for that."""
        self._refuse_if_carried_over()
        if self._reader is None:
            identity = self._identity_of_the_writer()
            if place.identity(self.path) != identity:
                raise trouble.replaced(self.path)
            db = self._connect(time.monotonic() + self._timeout, sqlite3.Connection)
            db.execute("pragma query_only = on")
            self._reader = Handle(db, identity)
        if place.identity(self.path) != self._reader.identity:
            abandon(self._reader.db)
            self._reader = None
            raise trouble.replaced(self.path)
        _roll_back(self._reader.db)
        return self._reader.db

    def _identity_of_the_writer(self) -> place.Identity | None:
        """Return what the writer has open, having opened it if need be."""
        if (writer := self._writer) is not None:
            return writer.identity
        with self._alone() as ends_at:
            self._for_writing(ends_at)
            return None if self._writer is None else self._writer.identity

    def _connect(self, ends_at: float, kind: type[C]) -> C:
        return connect(self.path, self._synchronous, timeout=max(0.0, ends_at - time.monotonic()), kind=kind)

    def _drop_writer(self) -> None:
        writer, self._writer = self._writer, None
        if writer is not None:
            self._close_one(writer)

    def _drop_reader(self) -> None:
        reader, self._reader = self._reader, None
        if reader is None:
            return
        try:
            # The last to close writes as well.
            with self._alone():
                self._close_one(reader)
        except TenureError:
            abandon(reader.db)

    def _close_within(self, wait: float) -> None:
        if not self._is_here():
            return
        with ExitStack() as held:
            for lock in (self._reading, self._turn.threads):
                if not lock.acquire(timeout=wait):
                    return
                held.callback(lock.release)
            self._close(wait)

    def _close(self, wait: float) -> None:
        """Close everything; whoever calls it holds both locks of threads."""
        handles = [each for each in (self._reader, self._writer) if each is not None]
        self._reader = self._writer = self._pulse = None
        if handles:
            # The last to close writes as well. If the lock is another's, we are not the last: that one has it open.
            with suppress(OSError):
                self._turn.processes.acquire(time.monotonic() + wait)
        for each in handles:
            self._close_one(each)
        self._turn.processes.close()

    def _close_one(self, handle: Handle) -> None:
        with suppress(StoreUnavailable, sqlite3.Error):
            if place.identity(self.path) == handle.identity:
                handle.db.close()
                return
        abandon(handle.db)

    def _hold_threads(self, wait: float) -> bool:
        """Hold both locks of threads, for `_let_threads_go`; tell whether that was possible."""
        for lock in (self._reading, self._turn.threads):
            if not lock.acquire(timeout=wait):
                self._let_threads_go()
                return False
            self._held.append(lock)
        return True

    def _let_threads_go(self) -> None:
        while self._held:
            self._held.pop().release()

    def _is_here(self) -> bool:
        return os.getpid() == self._process

    def _is_inside_a_transaction(self) -> bool:
        return any(each.database is self and each.transaction.is_open for each in _inside.get())

    def _refuse_inside_a_transaction(self) -> None:
        if self._is_inside_a_transaction():
            gc.collect()
        if self._is_inside_a_transaction():
            raise ConfigurationError(
                "this would wait for the claim.transaction() that it is called in: SQLite has one writer; "
                "do it after the block, or, to enqueue or complete, pass its connection"
            )

    def _refuse_if_carried_over(self) -> None:
        if self._is_carried_over or not self._is_here():
            raise StoreUnavailable(
                f"this process was forked while another thread or a claim.transaction() was using {str(self.path)!r}, "
                "so it cannot use it; fork before that or after, or start processes by spawn"
            )


def _wall_clock() -> datetime:
    return datetime.now(UTC)


def _roll_back(db: sqlite3.Connection) -> None:
    with suppress(sqlite3.Error):
        if db.in_transaction:
            db.execute("rollback")
