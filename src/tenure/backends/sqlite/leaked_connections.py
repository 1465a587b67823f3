"""Connections that must never be closed.

The last to close a file writes to it, and deletes the files beside it by their names. If these are another's by now,
of a file that took the place of ours or of the process that we were forked from, that would destroy what is in them.
"""

import ctypes
import sqlite3


def abandon(db: sqlite3.Connection) -> None:
    """Let this connection be, for as long as the process lives and while it ends."""
    ctypes.pythonapi.Py_IncRef(ctypes.py_object(db))
