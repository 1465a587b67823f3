"""Jobs on a PostgreSQL server, shared by the threads and processes of many machines."""

from tenure.backends.postgres.backend import PostgreSQL, outstanding_sql

__all__ = ["PostgreSQL", "outstanding_sql"]
