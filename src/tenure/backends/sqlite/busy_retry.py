"""Waiting for another writer, in small uneven steps so that those who wait do not march in line."""

import random
import sqlite3
import time
from collections.abc import Callable

SHORTEST, LONGEST = 0.000_1, 0.010
PRIMARY = 0xFF
"""The part of an error code that says what happened; the rest says where."""


IN_PROGRESS = "SQL statements in progress"
"""What SQLite calls busy as well: a cursor of this very connection has rows left."""


Execute = Callable[[str], object]


def patiently(execute: Execute, statement: str, ends_at: float) -> None:
    """Execute a statement that begins or ends a transaction, again and again while someone else is in the way."""
    pause = SHORTEST
    while True:
        try:
            execute(statement)
        except sqlite3.OperationalError as exc:
            if not is_busy(exc) or IN_PROGRESS in str(exc) or time.monotonic() >= ends_at:
                raise
            time.sleep(pause * random.uniform(0.5, 1.0))
            pause = min(pause * 1.5, LONGEST)
        else:
            return


def code_of(error: sqlite3.Error) -> int:
    """Return SQLite's primary code of an error, or 0 if it is Python's own."""
    return getattr(error, "sqlite_errorcode", 0) & PRIMARY


def is_busy(error: sqlite3.Error) -> bool:
    return code_of(error) in {sqlite3.SQLITE_BUSY, sqlite3.SQLITE_LOCKED}
