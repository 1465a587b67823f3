"""The operations of the SQLite store. Every operation is a transaction."""

import re
import sqlite3
import threading
import time
from collections.abc import Collection, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, ClassVar, NamedTuple
from urllib.parse import parse_qsl, unquote

from tenure.backends.protocol import SWEEP, StoreClock
from tenure.backends.shared.sql_files import statements
from tenure.backends.sqlite import claim, enqueue, file_checks, read, schedule, settle
from tenure.backends.sqlite import move as move_operations
from tenure.backends.sqlite.connect import Synchronous
from tenure.backends.sqlite.database import Database
from tenure.backends.sqlite.explain import explain
from tenure.backends.sqlite.migrations import current_version
from tenure.backends.sqlite.process_lock import LONGEST_PAUSE
from tenure.backends.sqlite.rows import encode_names
from tenure.backends.sqlite.timestamps import duration
from tenure.backends.sqlite.wait import wait
from tenure.backends.sqlite.write_transaction import WriteTransaction
from tenure.core import checks
from tenure.core.job import JobRecord
from tenure.core.operations import (
    SILENT_WORKER_TTL,
    Claimed,
    ClaimOutlook,
    ClaimRequest,
    Count,
    Enqueued,
    Extension,
    Heartbeat,
    HoldStatus,
    Move,
    Moved,
    Page,
    Purge,
    Query,
    Reaped,
    Scheduled,
    Schema,
    Settlement,
    Slot,
    Stats,
    WorkerInfo,
)
from tenure.core.schedules import check_schedule
from tenure.core.transitions import move_note
from tenure.errors import ConfigurationError

if TYPE_CHECKING:
    from asyncio import AbstractEventLoop

PAUSE = statements(__package__, "pause")
WORKERS = statements(__package__, "workers")

DEFAULT_TIMEOUT = 2.5
"""Default time in seconds that an operation waits for other writers."""


class SQLite:
    """A `Backend` in a SQLite file, for the threads and processes of one machine."""

    is_exclusive: ClassVar[bool] = True

    def __init__(
        self,
        path: str | Path,
        *,
        clock: StoreClock | None = None,
        synchronous: Synchronous = "full",
        timeout: float = DEFAULT_TIMEOUT,
    ) -> None:
        # Resolve the path now: the working directory may change before the file is opened. A resolved path also gives
        # the same file the same lock, whatever name the caller uses.
        self.database = Database(Path(path).resolve(), clock=clock, synchronous=synchronous, timeout=timeout)
        self._closing = threading.Event()

    def enqueue(self, records: Sequence[JobRecord]) -> list[Enqueued]:
        with self.database.write_transaction() as write:
            return enqueue.enqueue(write, records)

    def schedule(self, name: str, slots: Sequence[Slot]) -> Scheduled:
        name = check_schedule(name, slots)
        with self.database.write_transaction() as write:
            return schedule.schedule(write, name, slots)

    def claim(self, request: ClaimRequest) -> Claimed:
        with self.database.write_transaction() as write:
            return claim.claim(write, request)

    def extend(self, extensions: Sequence[Extension]) -> list[HoldStatus]:
        with self.database.write_transaction() as write:
            return [claim.extend(write, each) for each in extensions]

    def settle(self, settlements: Sequence[Settlement]) -> list[bool]:
        with self.database.write_transaction() as write:
            return settle.settle(write, settlements)

    def exchange(self, settlements: Sequence[Settlement], request: ClaimRequest) -> tuple[list[bool], Claimed]:
        with self.database.write_transaction() as write:
            return settle.settle(write, settlements), claim.claim(write, request)

    def reap(
        self, limit: int = SWEEP, worker: str | None = None, started: Collection[str] | None = None
    ) -> list[Reaped]:
        with self.database.write_transaction() as write:
            if worker is None:
                return settle.reap_expired(write, limit)
            return settle.reap_worker(write, worker, started, limit)

    def move(self, ids: Sequence[str], move: Move, reason: str | None = None) -> list[Moved]:
        note = move_note(move, reason)
        with self.database.write_transaction() as write:
            return [move_operations.move(write, id, move, note) for id in ids]

    def delete(self, ids: Sequence[str]) -> list[Moved]:
        with self.database.write_transaction() as write:
            return [move_operations.delete(write, id) for id in ids]

    def purge(self, purge: Purge) -> int:
        with self.database.write_transaction() as write:
            number = move_operations.purge(write, purge)
        if number == purge.limit:
            # A full batch takes long, and the caller will purge again at once: let other writers proceed.
            time.sleep(2 * LONGEST_PAUSE)
        return number

    def pause(self, queues: Sequence[str]) -> None:
        with self.database.write_transaction() as write:
            write.execute_many(PAUSE["pause"], [{"queue": queue} for queue in queues])

    def resume(self, queues: Sequence[str]) -> None:
        with self.database.write_transaction() as write:
            write.execute_many(PAUSE["resume"], [{"queue": queue} for queue in queues])

    def find(self, query: Query) -> Page:
        with self.database.read_transaction() as (db, now):
            return read.find(db, query, now)

    def stats(self) -> Stats:
        with self.database.read_transaction() as (db, now):
            return read.stats(db, now)

    def explain(self, id: str, queues: Sequence[str] | None, types: Sequence[str] | None) -> ClaimOutlook | None:
        with self.database.read_transaction() as (db, now):
            return explain(db, id, queues, types, now)

    def counts(self, since: float) -> list[Count]:
        with self.database.read_transaction() as (db, now):
            return read.counts(db, since, now)

    def beat(self, beat: Heartbeat, ttl: float) -> None:
        with self.database.write_transaction() as write:
            write.execute(WORKERS["drop long silent"], {"silent_since": write.now - duration(SILENT_WORKER_TTL)})
            if ttl <= 0:
                write.execute(WORKERS["deregister"], {"name": beat.name})
                return
            values = {
                "name": beat.name,
                "host": beat.host,
                "pid": beat.pid,
                "version": beat.version,
                "concurrency": beat.concurrency,
                "queues": encode_names(beat.queues),
                "types": encode_names(beat.types),
                "quiet_for": beat.quiet_for,
                "now": write.now,
                "shown_until": write.now + duration(ttl),
            }
            write.execute(WORKERS["beat"], values)

    def migrate(self) -> Schema:
        """Open the file: the first process that opens it migrates the schema."""
        with self.database.read_transaction():
            return Schema(before=self.database.schema_found, now=current_version())

    def workers(self) -> list[WorkerInfo]:
        with self.database.read_transaction() as (db, now):
            return read.workers(db, now)

    def wait(self, queues: Sequence[str] | None, types: Sequence[str] | None, timeout: float) -> None:
        wait(self.database, partial(read.claimable_in, queues=queues, types=types), timeout, self._closing)

    def close(self) -> None:
        self._closing.set()
        self.database.close()

    @contextmanager
    def transaction(self, loop: "AbstractEventLoop | None" = None) -> Iterator[sqlite3.Connection]:  # noqa: ARG002
        """Yield a connection for the caller's statements; commit when the block ends, roll back on an exception.

        The connection is the same on an event loop: `sqlite3` has no async connections.
        """
        with self.database.transaction() as connection:
            yield connection

    @contextmanager
    def join(self, connection: object) -> Iterator["SQLiteTransactionOperations"]:
        """Yield the operations that run in the transaction of the caller's connection."""
        with self.database.caller_transaction(connection) as write:
            yield SQLiteTransactionOperations(write)


@dataclass(frozen=True, slots=True)
class SQLiteTransactionOperations:
    """The operations that run in a caller's transaction."""

    write: WriteTransaction

    def enqueue(self, records: Sequence[JobRecord]) -> list[Enqueued]:
        return enqueue.enqueue(self.write, records)

    def extend(self, extensions: Sequence[Extension]) -> list[HoldStatus]:
        return [claim.extend(self.write, each) for each in extensions]

    def settle(self, settlements: Sequence[Settlement]) -> list[bool]:
        return settle.settle(self.write, settlements)

    def is_open(self) -> bool:
        return self.write.is_open

    def belongs_to(self, connection: object) -> bool:
        return self.write.belongs_to(connection)


def open_sqlite(url: str) -> SQLite:
    """Open the store of a URL: `sqlite:///relative.db`, `sqlite:////absolute.db`."""
    parsed = parse_url(url)
    return SQLite(parsed.path, synchronous=parsed.synchronous, timeout=parsed.timeout)


class SQLiteUrl(NamedTuple):
    """A parsed `sqlite:` URL."""

    path: str
    synchronous: Synchronous
    timeout: float


def parse_url(url: str) -> SQLiteUrl:
    path, options = _split_url(url)
    checks.reject_unknown(repr(url), options, ("synchronous", "timeout"))
    synchronous = checks.choice("synchronous", options.get("synchronous", "full"), ["full", "normal"])
    return SQLiteUrl(path, "normal" if synchronous == "normal" else "full", _parse_timeout(options.get("timeout")))


def file_exists(url: str) -> bool:
    """Return whether the file of a URL exists and is not empty."""
    path, _ = _split_url(url)
    return not file_checks.is_missing_or_empty(Path(path))


def _split_url(url: str) -> tuple[str, dict[str, str]]:
    location, _, text = url.removeprefix("sqlite://").partition("?")
    path = unquote(location.removeprefix("/"))
    if not location.startswith("/") or not path or path.endswith("/"):
        raise ConfigurationError(
            f"{url!r} does not name a file; use 'sqlite:///tenure.db' for a relative path, "
            "'sqlite:////var/lib/app/tenure.db' for an absolute one"
        )
    if "\0" in path:
        raise ConfigurationError(f"{url!r} contains a NUL character; file names cannot contain it")
    if path == ":memory:":
        raise ConfigurationError(f"{url!r} does not name a file; use 'memory://' for a store in memory")
    return path, dict(parse_qsl(text, keep_blank_values=True))


def _parse_timeout(text: str | None) -> float:
    if text is None:
        return DEFAULT_TIMEOUT
    if not re.fullmatch(r"\d+(\.\d+)?", text):
        raise ConfigurationError(f"timeout must be a number of seconds, not {text!r}")
    return checks.seconds("timeout", float(text), 0.0, 3600.0)
