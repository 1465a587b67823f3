"""From a path to a connection on a store."""

import logging
import sqlite3
import time
from pathlib import Path
from typing import Literal, NamedTuple, TypeVar
from urllib.parse import quote

from tenure.backends.sqlite import errors as trouble
from tenure.backends.sqlite import file_checks as place
from tenure.backends.sqlite import library
from tenure.backends.sqlite.busy_retry import patiently
from tenure.backends.sqlite.migrations import current, is_current, migrate
from tenure.backends.sqlite.timestamps import moment_text
from tenure.errors import ConfigurationError

log = logging.getLogger(__name__)

Synchronous = Literal["full", "normal"]
C = TypeVar("C", bound=sqlite3.Connection)

APPLICATION = 0x74656E75
"""Marks a file that tenure made, in its header."""

STATEMENTS_KEPT = 128
CACHE = 16 * 1024
"""KiB of memory for pages, a connection."""

_warned: set[place.Identity | None] = set()


class Opened(NamedTuple):
    """A connection that writes, and the version of the schema that it found, 0 for none."""

    db: sqlite3.Connection
    found: int


def open_file(
    path: Path, synchronous: Synchronous, ends_at: float, *, may_create: bool, is_bare: bool = False
) -> Opened:
    """Open the file, and make it a store if it is none yet; whoever calls it is the only one to write.

    One that is to be bare stays as it is.
    """
    is_new = place.is_new(path)
    if is_new and is_bare:
        raise trouble.not_there(path)
    if is_new and not may_create:
        raise trouble.gone(path)
    timeout = max(0.0, ends_at - time.monotonic())
    db = connect(path, synchronous, timeout=timeout, kind=sqlite3.Connection, may_create=is_new)
    try:
        if is_new:
            db.execute(f"pragma application_id = {APPLICATION}")
        _choose_journal(db, path, ends_at, is_bare=is_bare)
        found = current()
        if not is_bare and not is_current(db):
            patiently(db.execute, "begin immediate", ends_at)
            found = migrate(db)
            patiently(db.execute, "commit", ends_at)
        # From here on it is only the beginning and the end of a transaction that wait, in their own way.
        db.execute("pragma busy_timeout = 0")
    except BaseException:
        db.close()
        raise
    return Opened(db, found)


def connect(path: Path, synchronous: Synchronous, *, timeout: float, kind: type[C], may_create: bool = False) -> C:
    """Return a connection that begins no transactions of its own, to a file that is there unless it may be made."""
    db = sqlite3.connect(
        f"file:{quote(str(path))}?mode={'rwc' if may_create else 'rw'}",
        uri=True,
        timeout=timeout,
        isolation_level=None,
        check_same_thread=False,
        cached_statements=STATEMENTS_KEPT,
        factory=kind,
    )
    try:
        db.execute(f"pragma synchronous = {synchronous}")
        db.execute(f"pragma cache_size = -{CACHE}")
        db.execute("pragma temp_store = memory")
        db.create_function("tenure_moment", 1, moment_text, deterministic=True)
    except BaseException:
        db.close()
        raise
    return db


def is_in_wal_mode(db: sqlite3.Connection) -> bool:
    (mode,) = db.execute("pragma journal_mode").fetchone()
    return str(mode) == "wal"


def warn_of_lost_commits(path: Path, why: str) -> None:
    """Say once what this version of SQLite may do, if it may."""
    file = place.identity(path)
    if library.has_wal_reset_bug(sqlite3.sqlite_version_info) and file not in _warned:
        _warned.add(file)
        log.warning(
            "%s: %s, and this process has SQLite %s. %s; or write to it in claim.transaction(), which takes the lock",
            path,
            why,
            sqlite3.sqlite_version,
            library.WAL_RESET,
        )


def _choose_journal(db: sqlite3.Connection, path: Path, ends_at: float, *, is_bare: bool) -> None:
    """Have a file of ours in WAL mode; leave one of the user's as it is."""
    (application,) = db.execute("pragma application_id").fetchone()
    if is_bare or application != APPLICATION:
        if application != APPLICATION and is_in_wal_mode(db):
            warn_of_lost_commits(path, "it was not made by tenure, so others may write to it without its lock")
        return
    patiently(db.execute, "pragma journal_mode = wal", ends_at)
    if not is_in_wal_mode(db):
        raise ConfigurationError(f"{str(path)!r} is where SQLite cannot have a WAL; put it on a local disk")
