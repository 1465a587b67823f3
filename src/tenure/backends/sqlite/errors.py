"""What SQLite says when it cannot, in words that name the file and a remedy."""

import os
import sqlite3
from pathlib import Path

from tenure.backends.sqlite.busy_retry import IN_PROGRESS, code_of, is_busy
from tenure.errors import ConfigurationError, StoreUnavailable, TenureError

REMEDIES = {
    sqlite3.SQLITE_FULL: "the disk is full; make room, and ask again",
    sqlite3.SQLITE_IOERR: "the disk does not answer; see the system's log",
    sqlite3.SQLITE_CORRUPT: "the file is damaged; restore a backup, or move it away and begin anew",
    sqlite3.SQLITE_NOTADB: "this is no SQLite database; name another file, or move this one away",
    sqlite3.SQLITE_READONLY: "the file is read-only; a store has to be written",
    sqlite3.SQLITE_CANTOPEN: "see whether file and folder may be read and written",
    sqlite3.SQLITE_PERM: "see whether file and folder may be read and written",
}


def unavailable(path: Path, error: sqlite3.Error | OSError, timeout: float) -> StoreUnavailable:
    """Return what is raised in place of the driver's error."""
    if isinstance(error, sqlite3.Error):
        if IN_PROGRESS in str(error):
            return in_progress(error)
        if is_busy(error):
            return locked(path, timeout)
        # Where there is no room for its shared memory, SQLite calls that an I/O error.
        code = sqlite3.SQLITE_FULL if _is_full(path, error) else code_of(error)
        remedy = REMEDIES.get(code)
        return StoreUnavailable(f"{str(path)!r} cannot be used: {error}" + (f"; {remedy}" if remedy else ""))
    return StoreUnavailable(f"{str(path)!r} cannot be used: {error.strerror}")


def _is_full(path: Path, error: sqlite3.Error) -> bool:
    if code_of(error) != sqlite3.SQLITE_IOERR or not hasattr(os, "statvfs"):
        return False
    try:
        return os.statvfs(path).f_bavail == 0
    except OSError:
        return False


def of_the_caller(path: Path, error: sqlite3.Error) -> TenureError:
    """Return what is raised in place of an error on a connection of the caller's."""
    if isinstance(error, sqlite3.ProgrammingError) or code_of(error) == sqlite3.SQLITE_READONLY:
        return ConfigurationError(f"connection cannot be used for this: {error}")
    if IN_PROGRESS in str(error):
        return in_progress(error)
    if is_busy(error):
        return StoreUnavailable(
            f"{str(path)!r} is locked by another writer, or the transaction of connection has read an older state: "
            "roll it back and try again; begin it with 'begin immediate' if it reads before it writes"
        )
    return StoreUnavailable(f"{str(path)!r} cannot be used by connection: {error}")


def in_progress(error: sqlite3.Error) -> StoreUnavailable:
    return StoreUnavailable(f"the transaction cannot go on: {error}; read a cursor to its end, or close it, before")


def locked(path: Path, timeout: float) -> StoreUnavailable:
    return StoreUnavailable(
        f"{str(path)!r} was locked by another writer for more than {timeout:g} s; ask again, look for a transaction "
        "that stays open, or wait longer with '?timeout='"
    )


def replaced(path: Path) -> StoreUnavailable:
    return StoreUnavailable(f"{str(path)!r} was deleted or replaced while it was in use; nothing was written to it")


def gone(path: Path) -> StoreUnavailable:
    return StoreUnavailable(
        f"{str(path)!r} was here and is gone; put it back, or make a new Jobs to begin with an empty store"
    )


def not_there(path: Path) -> StoreUnavailable:
    return StoreUnavailable(
        f"there is no database at {str(path)!r}; a table is in a file that is there already: make it first, or name "
        "the one that has it"
    )
