"""The operations of the SQLite store, each one transaction."""

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

from tenure.backends.protocol import SWEEP, Clock
from tenure.backends.shared.sql_files import statements
from tenure.backends.sqlite import claim as claiming
from tenure.backends.sqlite import enqueue as enqueueing
from tenure.backends.sqlite import file_checks as place
from tenure.backends.sqlite import move as moving
from tenure.backends.sqlite import read as reading
from tenure.backends.sqlite import schedule as scheduling
from tenure.backends.sqlite import settle as settling
from tenure.backends.sqlite.connect import Synchronous
from tenure.backends.sqlite.database import Database
from tenure.backends.sqlite.explain import standing
from tenure.backends.sqlite.migrations import current
from tenure.backends.sqlite.process_lock import LONGEST
from tenure.backends.sqlite.rows import names_text
from tenure.backends.sqlite.timestamps import duration
from tenure.backends.sqlite.wait import wait
from tenure.backends.sqlite.write_transaction import Write
from tenure.core import checks
from tenure.core.job import Entry
from tenure.core.operations import (
    EVIDENCE_KEPT,
    Beat,
    Claimed,
    ClaimRequest,
    Count,
    Enqueued,
    Extension,
    Holding,
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
    Standing,
    Stats,
    Worker,
)
from tenure.core.schedules import checked_name
from tenure.core.transitions import move_note
from tenure.errors import ConfigurationError

if TYPE_CHECKING:
    from asyncio import AbstractEventLoop

PAUSE = statements(__package__, "pause")
WORKERS = statements(__package__, "workers")

TIMEOUT = 2.5
"""Seconds that an operation waits for other writers, unless told otherwise."""


class SQLite:
    """A `Backend` in a file, for the threads and processes of one machine."""

    is_exclusive: ClassVar[bool] = True

    def __init__(
        self,
        path: str | Path,
        *,
        clock: Clock | None = None,
        synchronous: Synchronous = "full",
        timeout: float = TIMEOUT,
    ) -> None:
        # The working directory may be another when the file is opened.
        # The same file has the same lock, by whatever name.
        self.database = Database(Path(path).resolve(), clock=clock, synchronous=synchronous, timeout=timeout)
        self._closing = threading.Event()

    def enqueue(self, entries: Sequence[Entry]) -> list[Enqueued]:
        with self.database.writing() as write:
            return enqueueing.enqueue(write, entries)

    def schedule(self, name: str, slots: Sequence[Slot]) -> Scheduled:
        name = checked_name(name, slots)
        with self.database.writing() as write:
            return scheduling.schedule(write, name, slots)

    def claim(self, request: ClaimRequest) -> Claimed:
        with self.database.writing() as write:
            return claiming.claim(write, request)

    def extend(self, extensions: Sequence[Extension]) -> list[Holding]:
        with self.database.writing() as write:
            return [claiming.extend(write, each) for each in extensions]

    def settle(self, settlements: Sequence[Settlement]) -> list[bool]:
        with self.database.writing() as write:
            return settling.settle(write, settlements)

    def exchange(self, settlements: Sequence[Settlement], request: ClaimRequest) -> tuple[list[bool], Claimed]:
        with self.database.writing() as write:
            return settling.settle(write, settlements), claiming.claim(write, request)

    def reap(
        self, limit: int = SWEEP, worker: str | None = None, started: Collection[str] | None = None
    ) -> list[Reaped]:
        with self.database.writing() as write:
            if worker is None:
                return settling.reap_expired(write, limit)
            return settling.reap_worker(write, worker, started, limit)

    def move(self, ids: Sequence[str], move: Move, reason: str | None = None) -> list[Moved]:
        note = move_note(move, reason)
        with self.database.writing() as write:
            return [moving.move(write, id, move, note) for id in ids]

    def delete(self, ids: Sequence[str]) -> list[Moved]:
        with self.database.writing() as write:
            return [moving.delete(write, id) for id in ids]

    def purge(self, purge: Purge) -> int:
        with self.database.writing() as write:
            number = moving.purge(write, purge)
        if number == purge.limit:
            # This takes long, and will be asked for again at once: let the others have their turn.
            time.sleep(2 * LONGEST)
        return number

    def pause(self, queues: Sequence[str]) -> None:
        with self.database.writing() as write:
            write.execute_many(PAUSE["pause"], [{"queue": queue} for queue in queues])

    def resume(self, queues: Sequence[str]) -> None:
        with self.database.writing() as write:
            write.execute_many(PAUSE["resume"], [{"queue": queue} for queue in queues])

    def find(self, query: Query) -> Page:
        with self.database.reading() as (db, now):
            return reading.find(db, query, now)

    def stats(self) -> Stats:
        with self.database.reading() as (db, now):
            return reading.stats(db, now)

    def standing(self, id: str, queues: Sequence[str] | None, types: Sequence[str] | None) -> Standing | None:
        with self.database.reading() as (db, now):
            return standing(db, id, queues, types, now)

    def counts(self, since: float) -> list[Count]:
        with self.database.reading() as (db, now):
            return reading.counts(db, since, now)

    def beat(self, beat: Beat, ttl: float) -> None:
        with self.database.writing() as write:
            write.execute(WORKERS["drop long silent"], {"silent_since": write.now - duration(EVIDENCE_KEPT)})
            if ttl <= 0:
                write.execute(WORKERS["sign off"], {"name": beat.name})
                return
            values = {
                "name": beat.name,
                "host": beat.host,
                "pid": beat.pid,
                "version": beat.version,
                "concurrency": beat.concurrency,
                "queues": names_text(beat.queues),
                "types": names_text(beat.types),
                "quiet_for": beat.quiet_for,
                "now": write.now,
                "shown_until": write.now + duration(ttl),
            }
            write.execute(WORKERS["beat"], values)

    def migrate(self) -> Schema:
        """Open the file: whoever is the first to do so brings it up to date."""
        with self.database.reading():
            return Schema(before=self.database.schema_found, now=current())

    def workers(self) -> list[Worker]:
        with self.database.reading() as (db, now):
            return reading.workers(db, now)

    def wait(self, queues: Sequence[str] | None, types: Sequence[str] | None, timeout: float) -> None:
        wait(self.database, partial(reading.claimable_in, queues=queues, types=types), timeout, self._closing)

    def close(self) -> None:
        self._closing.set()
        self.database.close()

    @contextmanager
    def transaction(self, loop: "AbstractEventLoop | None" = None) -> Iterator[sqlite3.Connection]:  # noqa: ARG002
        """Give a connection on the file for the caller's statements: committed on leaving, or undone.

        On an event loop it is the same: statements on a file are not awaited.
        """
        with self.database.transaction() as connection:
            yield connection

    @contextmanager
    def joined(self, connection: object) -> Iterator["Joined"]:
        """Give the operations that can be part of the transaction on a connection of the caller's."""
        with self.database.joining(connection) as write:
            yield Joined(write)


@dataclass(frozen=True, slots=True)
class Joined:
    """What can be done in a transaction of the caller's."""

    write: Write

    def enqueue(self, entries: Sequence[Entry]) -> list[Enqueued]:
        return enqueueing.enqueue(self.write, entries)

    def extend(self, extensions: Sequence[Extension]) -> list[Holding]:
        return [claiming.extend(self.write, each) for each in extensions]

    def settle(self, settlements: Sequence[Settlement]) -> list[bool]:
        return settling.settle(self.write, settlements)

    def is_open(self) -> bool:
        return self.write.is_open

    def is_of(self, connection: object) -> bool:
        return self.write.is_of(connection)


def open_sqlite(url: str) -> SQLite:
    """Open the file that a URL names: `sqlite:///relative.db`, `sqlite:////absolute.db`."""
    place = place_of(url)
    return SQLite(place.path, synchronous=place.synchronous, timeout=place.timeout)


class Place(NamedTuple):
    """What a URL says of a file."""

    path: str
    synchronous: Synchronous
    timeout: float


def place_of(url: str) -> Place:
    path, options = _parts_of(url)
    checks.refuse_unknown(repr(url), options, ("synchronous", "timeout"))
    synchronous = checks.choice("synchronous", options.get("synchronous", "full"), ["full", "normal"])
    return Place(path, "normal" if synchronous == "normal" else "full", _timeout(options.get("timeout")))


def is_file_there(url: str) -> bool:
    """Tell whether the file that a URL names has something in it."""
    path, _ = _parts_of(url)
    return not place.is_new(Path(path))


def _parts_of(url: str) -> tuple[str, dict[str, str]]:
    where, _, text = url.removeprefix("sqlite://").partition("?")
    path = unquote(where.removeprefix("/"))
    if not where.startswith("/") or not path or path.endswith("/"):
        raise ConfigurationError(
            f"{url!r} names no file; write 'sqlite:///tenure.db' for one in this folder, "
            "'sqlite:////var/lib/app/tenure.db' for one elsewhere"
        )
    if "\0" in path:
        raise ConfigurationError(f"{url!r} has a NUL character, which no file name has")
    if path == ":memory:":
        raise ConfigurationError(f"{url!r} names no file; for a store in memory write 'memory://'")
    return path, dict(parse_qsl(text, keep_blank_values=True))


def _timeout(text: str | None) -> float:
    if text is None:
        return TIMEOUT
    if not re.fullmatch(r"\d+(\.\d+)?", text):
        raise ConfigurationError(f"timeout must be a number of seconds, not {text!r}")
    return checks.seconds("timeout", float(text), 0.0, 3600.0)
