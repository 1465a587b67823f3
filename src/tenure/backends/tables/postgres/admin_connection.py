"""A connection of its own, for what is done to a table and not to its rows.

Such statements are few and may take long: each is sent whole, and read as the driver reads it.
"""

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from functools import cache
from typing import Any

import psycopg

from tenure.backends.postgres import errors
from tenure.backends.postgres.database import Database
from tenure.backends.postgres.statements import Statement
from tenure.backends.shared.sql_files import raw_statements
from tenure.backends.tables.postgres.statements import build_statement

StatementValues = Mapping[str, object]


class AdminConnection:
    """Runs statements one by one; outside a transaction, unless one was begun."""

    def __init__(self, connection: psycopg.Connection[Any]) -> None:
        self.connection = connection

    def fetch(self, statement: Statement, values: StatementValues | None = None) -> list[tuple[Any, ...]]:
        """Return the rows that a statement of ours answers."""
        parameters = [(values or {})[name] for name in statement.names]
        cursor = psycopg.RawCursor(self.connection).execute(statement.text, parameters)
        return cursor.fetchall() if cursor.description else []

    def execute(self, text: str) -> int:
        """Run a statement that has no values; return how many rows it changed."""
        return self.connection.execute(text.encode()).rowcount

    def set_config(self, name: str, value: str) -> None:
        """Set something for the session, or until the end of the transaction if one was begun."""
        self.fetch(SET_CONFIG, {"name": name, "value": value, "is_local": self.is_in_transaction})

    @property
    def is_in_transaction(self) -> bool:
        return self.connection.info.transaction_status != psycopg.pq.TransactionStatus.IDLE


@contextmanager
def open_admin_connection(database: Database) -> Iterator[AdminConnection]:
    """Give a connection; what the driver raises is told as by any operation."""
    try:
        connection = database.connector.connect()
        try:
            yield AdminConnection(connection)
        finally:
            connection.close()
    except (psycopg.Error, OSError) as exc:
        raise errors.translate_error(database.address, exc) from exc


@cache
def load_statements(operation: str) -> Mapping[str, Statement]:
    """Return the statements of a file that need no fragments, by their names."""
    return {
        name: build_statement(text, is_prepared=False) for name, text in raw_statements(__package__, operation).items()
    }


SET_CONFIG = build_statement("select pg_catalog.set_config(:name, :value, :is_local)", is_prepared=False)
