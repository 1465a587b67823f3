"""Read text that is not valid UTF-8. SQLite stores any bytes, and one invalid row must not block all rows.

Invalid bytes become surrogates, as in file names: `encode(errors="surrogateescape")` returns the bytes.
"""

import sqlite3
from collections.abc import Callable
from typing import TypeVar

T = TypeVar("T")

DECODE_ERROR = "Could not decode to UTF-8"


def read_tolerantly(db: sqlite3.Connection, action: Callable[[], T]) -> T:
    """Run `action`, which reads rows. If a text is not valid UTF-8, run it again with surrogates."""
    try:
        return action()
    except sqlite3.OperationalError as exc:
        if DECODE_ERROR not in str(exc):
            raise
    before, db.text_factory = db.text_factory, _decode_text
    try:
        return action()
    finally:
        db.text_factory = before


def _decode_text(content: bytes) -> str:
    return content.decode(errors="surrogateescape")
