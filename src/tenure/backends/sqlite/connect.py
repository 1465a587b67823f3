"""Connect to a SQLite file, and create the store if the file is new."""

import logging
import sqlite3
import time
from pathlib import Path
from typing import Literal, NamedTuple, TypeVar
from urllib.parse import quote

from tenure.backends.sqlite import errors, file_checks, library
from tenure.backends.sqlite.busy_retry import retry_while_busy
from tenure.backends.sqlite.migrations import current_version, is_current, migrate
from tenure.backends.sqlite.timestamps import normalise_timestamp
from tenure.errors import ConfigurationError

log = logging.getLogger(__name__)

Synchronous = Literal["full", "normal"]
C = TypeVar("C", bound=sqlite3.Connection)

APPLICATION_ID = 0x74656E75
"""The application id in the header of a file that tenure created."""

CACHED_STATEMENTS = 128
PAGE_CACHE_KIB = 16 * 1024
"""Page cache of a connection, in KiB."""

_warned_files: set[file_checks.FileIdentity | None] = set()


class OpenedFile(NamedTuple):
    """A write connection, and the schema version found in the file; 0 without a schema."""

    db: sqlite3.Connection
    found_version: int


def open_file(
    path: Path, synchronous: Synchronous, ends_at: float, *, may_create: bool, is_bare: bool = False
) -> OpenedFile:
    """Open the file, and create or migrate the schema. The caller must hold the write lock.

    A bare file is not changed.
    """
    is_new = file_checks.is_missing_or_empty(path)
    if is_new and is_bare:
        raise errors.no_database_error(path)
    if is_new and not may_create:
        raise errors.missing_error(path)
    timeout = max(0.0, ends_at - time.monotonic())
    db = connect(path, synchronous, timeout=timeout, kind=sqlite3.Connection, may_create=is_new)
    try:
        if is_new:
            db.execute(f"pragma application_id = {APPLICATION_ID}")
        _set_journal_mode(db, path, ends_at, is_bare=is_bare)
        found = current_version()
        if not is_bare and not is_current(db):
            retry_while_busy(db.execute, "begin immediate", ends_at)
            found = migrate(db)
            retry_while_busy(db.execute, "commit", ends_at)
        # From here on only `begin` and `commit` wait for other writers, through `retry_while_busy`.
        db.execute("pragma busy_timeout = 0")
    except BaseException:
        db.close()
        raise
    return OpenedFile(db, found)


def connect(path: Path, synchronous: Synchronous, *, timeout: float, kind: type[C], may_create: bool = False) -> C:
    """Return a connection that never begins a transaction implicitly; create the file only with `may_create`."""
    db = sqlite3.connect(
        f"file:{quote(str(path))}?mode={'rwc' if may_create else 'rw'}",
        uri=True,
        timeout=timeout,
        isolation_level=None,
        check_same_thread=False,
        cached_statements=CACHED_STATEMENTS,
        factory=kind,
    )
    try:
        db.execute(f"pragma synchronous = {synchronous}")
        db.execute(f"pragma cache_size = -{PAGE_CACHE_KIB}")
        db.execute("pragma temp_store = memory")
        db.create_function("tenure_moment", 1, normalise_timestamp, deterministic=True)
    except BaseException:
        db.close()
        raise
    return db


def is_in_wal_mode(db: sqlite3.Connection) -> bool:
    (mode,) = db.execute("pragma journal_mode").fetchone()
    return str(mode) == "wal"


def warn_of_lost_commits(path: Path, reason: str) -> None:
    """If this version of SQLite can lose a commit, log a warning, once for each file."""
    file = file_checks.file_identity(path)
    if library.has_wal_reset_bug(sqlite3.sqlite_version_info) and file not in _warned_files:
        _warned_files.add(file)
        log.warning(
            "%s: %s, and this process has SQLite %s. %s. Upgrade SQLite, or write to the file in claim.transaction(), "
            "which holds the lock",
            path,
            reason,
            sqlite3.sqlite_version,
            library.WAL_RESET,
        )


def _set_journal_mode(db: sqlite3.Connection, path: Path, ends_at: float, *, is_bare: bool) -> None:
    """Set WAL mode for a file that tenure created; keep the journal mode of a user's file."""
    (application,) = db.execute("pragma application_id").fetchone()
    if is_bare or application != APPLICATION_ID:
        if application != APPLICATION_ID and is_in_wal_mode(db):
            warn_of_lost_commits(path, "tenure did not create the file, so other programs may bypass its lock")
        return
    retry_while_busy(db.execute, "pragma journal_mode = wal", ends_at)
    if not is_in_wal_mode(db):
        raise ConfigurationError(f"SQLite cannot use WAL mode for {str(path)!r}; move the file to a local disk")
