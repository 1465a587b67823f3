"""Texts of the user's that are no UTF-8: SQLite keeps any bytes, and one such row must not stand in the way of all.

What cannot be decoded becomes surrogates, as in names of files: `encode(errors="surrogateescape")` gives the bytes.
"""

import sqlite3
from collections.abc import Callable
from typing import TypeVar

T = TypeVar("T")

DECODE_ERROR = "Could not decode to UTF-8"


def read_tolerantly(db: sqlite3.Connection, action: Callable[[], T]) -> T:
    """Do what reads rows, and if they have such texts do it again so that they are read."""
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
