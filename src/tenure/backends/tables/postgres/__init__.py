"""User tables on PostgreSQL."""

from tenure.backends.tables.postgres.table import PostgresTable, open_table

__all__ = ["PostgresTable", "open_table"]
