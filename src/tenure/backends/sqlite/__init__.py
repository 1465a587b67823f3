"""The SQLite store: the embedded default, shared by the threads and processes of one machine."""

from tenure.backends.sqlite.backend import SQLite, is_file_there, open_sqlite

__all__ = ["SQLite", "is_file_there", "open_sqlite"]
