"""Translate SQLite errors to errors that name the file and a remedy."""

import os
import sqlite3
from pathlib import Path

from tenure.backends.sqlite.busy_retry import STATEMENTS_IN_PROGRESS, is_busy, primary_code
from tenure.errors import ConfigurationError, StoreUnavailable, TenureError

REMEDIES = {
    sqlite3.SQLITE_FULL: "the disk is full; free some space and retry",
    sqlite3.SQLITE_IOERR: "the disk reports an I/O error; check the system log",
    sqlite3.SQLITE_CORRUPT: "the file is damaged; restore a backup, or move it away to start with an empty store",
    sqlite3.SQLITE_NOTADB: "the file is not a SQLite database; name another file, or move this one away",
    sqlite3.SQLITE_READONLY: "the file is read-only; make it writable",
    sqlite3.SQLITE_CANTOPEN: "check the permissions of the file and its folder",
    sqlite3.SQLITE_PERM: "check the permissions of the file and its folder",
}


def translate_error(path: Path, error: sqlite3.Error | OSError, timeout: float) -> StoreUnavailable:
    """Translate a driver error or a system error."""
    if isinstance(error, sqlite3.Error):
        if STATEMENTS_IN_PROGRESS in str(error):
            return open_cursor_error(error)
        if is_busy(error):
            return locked_error(path, timeout)
        # Without disk space for its shared memory, SQLite reports an I/O error.
        code = sqlite3.SQLITE_FULL if _is_disk_full(path, error) else primary_code(error)
        remedy = REMEDIES.get(code)
        return StoreUnavailable(f"cannot use {str(path)!r}: {error}" + (f"; {remedy}" if remedy else ""))
    return StoreUnavailable(f"cannot use {str(path)!r}: {error.strerror}")


def _is_disk_full(path: Path, error: sqlite3.Error) -> bool:
    if primary_code(error) != sqlite3.SQLITE_IOERR or not hasattr(os, "statvfs"):
        return False
    try:
        return os.statvfs(path).f_bavail == 0
    except OSError:
        return False


def translate_caller_error(path: Path, error: sqlite3.Error) -> TenureError:
    """Translate an error on the caller's connection."""
    if isinstance(error, sqlite3.ProgrammingError) or primary_code(error) == sqlite3.SQLITE_READONLY:
        return ConfigurationError(f"cannot use connection: {error}")
    if STATEMENTS_IN_PROGRESS in str(error):
        return open_cursor_error(error)
    if is_busy(error):
        return StoreUnavailable(
            f"{str(path)!r} is locked by another writer, or connection has read an older state in its transaction: "
            "roll back and retry; use 'begin immediate' if the transaction reads before it writes"
        )
    return StoreUnavailable(f"connection cannot use {str(path)!r}: {error}")


def open_cursor_error(error: sqlite3.Error) -> StoreUnavailable:
    return StoreUnavailable(f"the transaction cannot end: {error}; read the cursor to its end, or close it first")


def locked_error(path: Path, timeout: float) -> StoreUnavailable:
    return StoreUnavailable(
        f"{str(path)!r} was locked by another writer for more than {timeout:g} s; retry, find the transaction that "
        "stays open, or wait longer with '?timeout='"
    )


def replaced_error(path: Path) -> StoreUnavailable:
    return StoreUnavailable(f"{str(path)!r} was deleted or replaced while it was in use; nothing was written")


def missing_error(path: Path) -> StoreUnavailable:
    return StoreUnavailable(
        f"{str(path)!r} no longer exists; restore it, or create a new Jobs to start with an empty store"
    )


def no_database_error(path: Path) -> StoreUnavailable:
    return StoreUnavailable(
        f"no database at {str(path)!r}: a Table needs an existing database. Create it first, or name the file that "
        "has the table"
    )
