"""The SQLite store: the embedded default, shared by the threads and processes of one machine."""

from tenure.backends.sqlite.backend import SQLite, file_exists, open_sqlite

__all__ = ["SQLite", "file_exists", "open_sqlite"]
