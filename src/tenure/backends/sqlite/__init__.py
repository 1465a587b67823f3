"""Jobs in a SQLite file: the embedded default, shared by threads and processes of one machine."""

from tenure.backends.sqlite.backend import SQLite, is_file_there, open_sqlite

__all__ = ["SQLite", "is_file_there", "open_sqlite"]
