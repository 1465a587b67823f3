"""A separate connection for DDL and checks of a table.

These statements are rare and may take long, so they use the driver directly instead of the pipeline.
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
    """Runs statements one by one, in autocommit mode unless the caller opened a transaction."""

    def __init__(self, connection: psycopg.Connection[Any]) -> None:
        self.connection = connection

    def fetch(self, statement: Statement, values: StatementValues | None = None) -> list[tuple[Any, ...]]:
        """Run a numbered statement and return its rows."""
        parameters = [(values or {})[name] for name in statement.names]
        cursor = psycopg.RawCursor(self.connection).execute(statement.text, parameters)
        return cursor.fetchall() if cursor.description else []

    def execute(self, text: str) -> int:
        """Run a statement without values; return the number of changed rows."""
        return self.connection.execute(text.encode()).rowcount

    def set_config(self, name: str, value: str) -> None:
        """Set a parameter for the session, or for the transaction if one is open."""
        self.fetch(SET_CONFIG, {"name": name, "value": value, "is_local": self.is_in_transaction})

    @property
    def is_in_transaction(self) -> bool:
        return self.connection.info.transaction_status != psycopg.pq.TransactionStatus.IDLE


@contextmanager
def open_admin_connection(database: Database) -> Iterator[AdminConnection]:
    """Open a connection; translate driver errors as all operations do."""
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
    """Return the statements of a file without fragments, by name."""
    return {
        name: build_statement(text, is_prepared=False) for name, text in raw_statements(__package__, operation).items()
    }


SET_CONFIG = build_statement("select pg_catalog.set_config(:name, :value, :is_local)", is_prepared=False)
