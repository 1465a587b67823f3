"""User tables in a SQLite file."""

from tenure.backends.tables.sqlite.table import SQLiteTable, open_table

__all__ = ["SQLiteTable", "open_table"]
