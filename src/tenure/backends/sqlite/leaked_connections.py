"""Connections that are leaked on purpose.

When SQLite closes the last connection to a file, it writes to the file and deletes the `-wal` and `-shm` files by name.
If these names now belong to a file that replaced ours, or to the parent of a fork, closing would destroy their content.
"""

import ctypes
import sqlite3


def abandon(db: sqlite3.Connection) -> None:
    """Keep the connection open until the process has ended, interpreter shutdown included."""
    ctypes.pythonapi.Py_IncRef(ctypes.py_object(db))
