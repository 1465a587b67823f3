"""Retry while SQLite is busy, with jitter so that waiting processes do not retry in lockstep."""

import random
import sqlite3
import time
from collections.abc import Callable

SHORTEST_PAUSE, LONGEST_PAUSE = 0.000_1, 0.010
PRIMARY_CODE_MASK = 0xFF
"""Mask for the primary error code; the upper bits of an extended code give details."""


STATEMENTS_IN_PROGRESS = "SQL statements in progress"
"""SQLite reports this as busy too: a cursor of the same connection has unread rows."""


ExecuteStatement = Callable[[str], object]


def retry_while_busy(execute: ExecuteStatement, statement: str, ends_at: float) -> None:
    """Execute a statement that begins or ends a transaction; retry until `ends_at` while another writer blocks it."""
    pause = SHORTEST_PAUSE
    while True:
        try:
            execute(statement)
        except sqlite3.OperationalError as exc:
            if not is_busy(exc) or STATEMENTS_IN_PROGRESS in str(exc) or time.monotonic() >= ends_at:
                raise
            time.sleep(pause * random.uniform(0.5, 1.0))
            pause = min(pause * 1.5, LONGEST_PAUSE)
        else:
            return


def primary_code(error: sqlite3.Error) -> int:
    """Return the primary SQLite code of an error, or 0 if Python raised the error."""
    return getattr(error, "sqlite_errorcode", 0) & PRIMARY_CODE_MASK


def is_busy(error: sqlite3.Error) -> bool:
    return primary_code(error) in {sqlite3.SQLITE_BUSY, sqlite3.SQLITE_LOCKED}
