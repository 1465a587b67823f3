"""Store jobs in PostgreSQL, shared by threads and processes on many machines."""

from tenure.backends.postgres.backend import PostgreSQL, outstanding_sql

__all__ = ["PostgreSQL", "outstanding_sql"]
