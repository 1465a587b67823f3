"""A SQLite file opened by this process, with a write connection and a read connection.

A writer holds the write lock (a thread lock and a process lock) from before the transaction begins until it is
committed. Opening the file may write too, so it holds the same lock. Readers do not wait. If an interrupt left a
connection in a transaction, the transaction is rolled back before the next use.

A bare database belongs to the user: the file must exist, and tenure creates no tables and changes no settings in it.
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

from tenure.backends.protocol import StoreClock
from tenure.backends.sqlite import errors, file_checks, forking, library
from tenure.backends.sqlite.busy_retry import is_busy, retry_while_busy
from tenure.backends.sqlite.connect import Synchronous, connect, is_in_wal_mode, open_file, warn_of_lost_commits
from tenure.backends.sqlite.guarded_connection import GuardedConnection
from tenure.backends.sqlite.leaked_connections import abandon
from tenure.backends.sqlite.timestamps import to_microseconds
from tenure.backends.sqlite.write_lock import WriteLock
from tenure.backends.sqlite.write_transaction import WriteTransaction
from tenure.connections.sqlite import join_transaction
from tenure.errors import ConfigurationError, StoreUnavailable, TenureError

C = TypeVar("C", bound=sqlite3.Connection)

ACQUIRE_WRITE_LOCK = "update tenure_lanes set due = due where false"

FORK_TIMEOUT, EXIT_TIMEOUT = 2.0, 0.1
"""Seconds to wait for other threads and processes before all connections are closed."""


class OpenFile(NamedTuple):
    """A connection, and the identity of its file: another file may have the path by now."""

    db: sqlite3.Connection
    identity: file_checks.FileIdentity | None


class OpenTransaction(NamedTuple):
    """A `transaction()` block that the current code runs in, or did."""

    database: "Database"
    transaction: GuardedConnection


_open_transactions: ContextVar[tuple[OpenTransaction, ...]] = ContextVar("inside these transactions", default=())


class Database:
    def __init__(
        self, path: Path, *, clock: StoreClock | None, synchronous: Synchronous, timeout: float, is_bare: bool = False
    ) -> None:
        self.path = path
        self._is_bare = is_bare
        self._clock = clock or _wall_clock
        self._synchronous = synchronous
        self._timeout = timeout
        self._was_open = False
        self.schema_found = 0
        self._reset()
        forking.register(self)

    def _reset(self) -> None:
        self._process = os.getpid()
        # Lock order: the read lock before the write lock.
        self._read_lock = threading.Lock()
        self._write_lock = WriteLock(self.path, self._timeout)
        self._held_locks: list[threading.Lock] = []
        self._reader: OpenFile | None = None
        self._writer: OpenFile | None = None
        self._transaction: GuardedConnection | None = None
        self._cached_version: tuple[float, int] | None = None
        self._was_forked_in_use = False

    @contextmanager
    def write_transaction(self) -> Iterator[WriteTransaction]:
        """Yield an exclusive write transaction; commit when the block ends, roll back on an exception."""
        with self._hold_write_lock() as ends_at, self._translated_errors(self._drop_writer):
            db = self._write_connection(ends_at)
            try:
                retry_while_busy(db.execute, "begin immediate", ends_at)
                write = WriteTransaction(db, self.now())
                yield write
                write.flush()
                retry_while_busy(db.execute, "commit", ends_at)
            finally:
                try:
                    _roll_back(db)
                except BaseException:
                    _roll_back(db)
                    raise

    @contextmanager
    def read_transaction(self) -> Iterator[tuple[sqlite3.Connection, int]]:
        """Yield a connection in a read transaction, with the current time."""
        with self._read_lock, self._translated_errors(self._drop_reader):
            db = self._read_connection()
            try:
                db.execute("begin")
                yield db, self.now()
            finally:
                _roll_back(db)

    def data_version(self, age: float = 0.0) -> int:
        """Return a number that changes with every commit of any process; the number is at most `age` seconds old."""
        if (cached := self._cached_version) is not None and time.monotonic() - cached[0] < age:
            return cached[1]
        with self._read_lock, self._translated_errors(self._drop_reader):
            read_at = time.monotonic()
            (version,) = self._read_connection().execute("pragma data_version").fetchone()
            self._cached_version = read_at, int(version)
            return int(version)

    @contextmanager
    def transaction(self) -> Iterator[sqlite3.Connection]:
        """Yield a separate connection in a write transaction, for the caller's statements.

        Errors of these statements propagate unchanged.
        """
        with self._hold_write_lock() as ends_at:
            with self._translated_errors(self._drop_writer):
                self._write_connection(ends_at)
                db = self._transaction = self._connect(ends_at, GuardedConnection)
            token = _open_transactions.set((*_open_transactions.get(), OpenTransaction(self, db)))
            try:
                with self._translated_errors(self._drop_writer):
                    db.begin(ends_at)
                yield db
                self._reject_if_forked_in_use()
                with self._translated_errors(self._drop_writer):
                    db.end(time.monotonic() + self._timeout)
            finally:
                try:
                    self._end_transaction(db)
                except BaseException:
                    self._end_transaction(db)
                    raise
                with suppress(ValueError):  # the block ended in a different context
                    _open_transactions.reset(token)

    @contextmanager
    def caller_transaction(
        self, connection: object, lock_statement: str = ACQUIRE_WRITE_LOCK
    ) -> Iterator[WriteTransaction]:
        """Yield a `WriteTransaction` in the transaction of the caller's connection. The caller commits.

        `lock_statement` changes nothing, but acquires SQLite's write lock.
        """
        # This may be the first use of the file: create the tables first.
        self._writer_identity()
        try:
            with join_transaction(connection, self.path, lock_statement) as db:
                write = WriteTransaction(db, self.now())
                yield write
                write.flush()
                if not isinstance(db, GuardedConnection) and is_in_wal_mode(db):
                    warn_of_lost_commits(self.path, "your own connection writes to this file without tenure's lock")
        except sqlite3.Error as exc:
            raise errors.translate_caller_error(self.path, exc) from exc

    def close(self) -> None:
        """Close the connections. Wait at most the timeout for threads that use them.

        A signal that arrives just as a block ends leaves the block's lock held while the exception is alive, and the
        handler of this exception may be what calls `close`: without a timeout it would wait for ever.
        """
        self._reject_inside_transaction()
        self._close_within(self._timeout)

    def close_if_idle(self) -> None:
        """Close the connections, unless a thread uses them."""
        self._close_within(EXIT_TIMEOUT)

    def now(self) -> int:
        return to_microseconds(self._clock())

    def before_fork(self) -> None:
        if self._transaction is None and self._acquire_thread_locks(FORK_TIMEOUT):
            self._close(FORK_TIMEOUT)

    def after_fork_in_parent(self) -> None:
        self._release_thread_locks()

    def after_fork_in_child(self) -> None:
        left_open = [each.db for each in (self._reader, self._writer) if each is not None]
        if self._transaction is not None:
            left_open.append(self._transaction)
        for db in left_open:
            abandon(db)
        self._write_lock.process_lock.close()
        self._reset()
        self._was_forked_in_use = bool(left_open)

    def __del__(self) -> None:
        with suppress(Exception):
            self.close_if_idle()

    @contextmanager
    def _hold_write_lock(self) -> Iterator[float]:
        """Hold the write lock; yield the deadline for waiting on writers that do not take the lock."""
        self._reject_if_forked_in_use()
        self._reject_inside_transaction()
        if self._writer is None:
            library.require_supported(sqlite3.sqlite_version_info)
            file_checks.check_path(self.path)
        with self._write_lock.hold() as ends_at:
            yield ends_at

    def _end_transaction(self, db: GuardedConnection) -> None:
        # In a forked child the transaction belongs to the parent.
        if self._is_in_this_process() and self._transaction is db:
            db.abort()
            self._transaction = None

    @contextmanager
    def _translated_errors(self, drop: Callable[[], None]) -> Iterator[None]:
        """Translate SQLite errors, and drop the connection after any error but a busy one."""
        try:
            yield
        except sqlite3.Error as exc:
            if not is_busy(exc):
                drop()
            raise errors.translate_error(self.path, exc, self._timeout) from exc

    def _write_connection(self, ends_at: float) -> sqlite3.Connection:
        """Return the write connection. The caller must hold the write lock."""
        if self._writer is None:
            try:
                db, found = open_file(
                    self.path, self._synchronous, ends_at, may_create=not self._was_open, is_bare=self._is_bare
                )
            except BaseException:
                if not self._was_open:
                    self._write_lock.process_lock.remove()
                raise
            self._writer = OpenFile(db, file_checks.file_identity(self.path))
            self.schema_found = self.schema_found if self._was_open else found
            self._was_open = True
        if file_checks.file_identity(self.path) != self._writer.identity:
            abandon(self._writer.db)
            self._writer = None
            raise errors.replaced_error(self.path)
        _roll_back(self._writer.db)
        return self._writer.db

    def _read_connection(self) -> sqlite3.Connection:
        """Return the read connection. The caller must hold the read lock."""
        self._reject_if_forked_in_use()
        if self._reader is None:
            identity = self._writer_identity()
            if file_checks.file_identity(self.path) != identity:
                raise errors.replaced_error(self.path)
            db = self._connect(time.monotonic() + self._timeout, sqlite3.Connection)
            db.execute("pragma query_only = on")
            self._reader = OpenFile(db, identity)
        if file_checks.file_identity(self.path) != self._reader.identity:
            abandon(self._reader.db)
            self._reader = None
            raise errors.replaced_error(self.path)
        _roll_back(self._reader.db)
        return self._reader.db

    def _writer_identity(self) -> file_checks.FileIdentity | None:
        """Return the identity of the write connection's file; open the file if necessary."""
        if (writer := self._writer) is not None:
            return writer.identity
        with self._hold_write_lock() as ends_at:
            self._write_connection(ends_at)
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
            # SQLite writes when the last connection closes, so hold the write lock.
            with self._hold_write_lock():
                self._close_one(reader)
        except TenureError:
            abandon(reader.db)

    def _close_within(self, wait: float) -> None:
        if not self._is_in_this_process():
            return
        with ExitStack() as held:
            for lock in (self._read_lock, self._write_lock.thread_lock):
                if not lock.acquire(timeout=wait):
                    return
                held.callback(lock.release)
            self._close(wait)

    def _close(self, wait: float) -> None:
        """Close all connections. The caller must hold both thread locks."""
        handles = [each for each in (self._reader, self._writer) if each is not None]
        self._reader = self._writer = self._cached_version = None
        if handles:
            # SQLite writes when the last connection closes, so hold the lock. If another process holds the lock, it
            # has the file open, and our connection is not the last.
            with suppress(OSError):
                self._write_lock.process_lock.acquire(time.monotonic() + wait)
        for each in handles:
            self._close_one(each)
        self._write_lock.process_lock.close()

    def _close_one(self, handle: OpenFile) -> None:
        with suppress(StoreUnavailable, sqlite3.Error):
            if file_checks.file_identity(self.path) == handle.identity:
                handle.db.close()
                return
        abandon(handle.db)

    def _acquire_thread_locks(self, wait: float) -> bool:
        """Acquire both thread locks, until `_release_thread_locks`; return False if a lock is not free in time."""
        for lock in (self._read_lock, self._write_lock.thread_lock):
            if not lock.acquire(timeout=wait):
                self._release_thread_locks()
                return False
            self._held_locks.append(lock)
        return True

    def _release_thread_locks(self) -> None:
        while self._held_locks:
            self._held_locks.pop().release()

    def _is_in_this_process(self) -> bool:
        return os.getpid() == self._process

    def _is_inside_transaction(self) -> bool:
        return any(each.database is self and each.transaction.is_open for each in _open_transactions.get())

    def _reject_inside_transaction(self) -> None:
        if self._is_inside_transaction():
            gc.collect()
        if self._is_inside_transaction():
            raise ConfigurationError(
                "this call would wait for the claim.transaction() block that it is in: SQLite has one writer. "
                "Call it after the block; to enqueue or complete, pass the block's connection"
            )

    def _reject_if_forked_in_use(self) -> None:
        if self._was_forked_in_use or not self._is_in_this_process():
            raise StoreUnavailable(
                f"this process was forked while another thread or a claim.transaction() was using {str(self.path)!r}, "
                "so it cannot use the store; fork before or after that, or start processes with spawn"
            )


def _wall_clock() -> datetime:
    return datetime.now(UTC)


def _roll_back(db: sqlite3.Connection) -> None:
    with suppress(sqlite3.Error):
        if db.in_transaction:
            db.execute("rollback")
