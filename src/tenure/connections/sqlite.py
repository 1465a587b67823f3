"""Join a transaction of the caller's `sqlite3.Connection`."""

import sqlite3
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from tenure.errors import ConfigurationError


@contextmanager
def join_transaction(connection: object, path: Path, lock_statement: str) -> Iterator[sqlite3.Connection]:
    """Yield the connection for statements of tenure in its transaction: all of them take effect, or none.

    The caller commits or rolls back. Row and text factories are restored afterwards. `lock_statement` is a
    statement that changes nothing but takes the write lock.
    """
    if not isinstance(connection, sqlite3.Connection):
        raise ConfigurationError(f"connection must be a sqlite3.Connection to {str(path)!r}, not {connection!r}")
    _require_same_file(connection, path)
    _require_transaction(connection, lock_statement)
    row_factory, text_factory = connection.row_factory, connection.text_factory
    connection.row_factory, connection.text_factory = None, str
    try:
        connection.execute("savepoint tenure")
        try:
            yield connection
        except BaseException as exc:
            _roll_back(connection, exc)
            raise
        connection.execute("release tenure")
    finally:
        connection.row_factory, connection.text_factory = row_factory, text_factory


def _roll_back(connection: sqlite3.Connection, error: BaseException) -> None:
    """Roll back to the savepoint, if the transaction is still open."""
    with suppress(sqlite3.ProgrammingError):  # the connection is closed
        if connection.in_transaction:
            connection.execute("rollback to tenure")
            # Fails while a cursor is still open; then the savepoint ends with the transaction.
            with suppress(sqlite3.OperationalError):
                connection.execute("release tenure")
            return
    error.add_note("tenure: SQLite has rolled back the whole transaction of this connection")


def _require_same_file(connection: sqlite3.Connection, path: Path) -> None:
    file = next(file for _, name, file in _fetch_plain(connection, "pragma database_list") if name == "main")
    if not file or not Path(file).exists() or not path.exists() or not path.samefile(file):
        raise ConfigurationError(
            f"connection is to {file or 'memory'!r}, but the jobs are in {str(path)!r}; "
            "pass a connection to the file of the jobs"
        )


def _require_transaction(connection: sqlite3.Connection, lock_statement: str) -> None:
    if not connection.in_transaction:
        # Python 3.12 adds autocommit=True, with which commit() does nothing.
        if connection.isolation_level is None or getattr(connection, "autocommit", False) is True:
            raise ConfigurationError(
                "connection is in autocommit mode and has no open transaction (isolation_level=None, or "
                "autocommit=True); execute 'begin immediate' first, and 'commit' afterwards"
            )
        connection.execute("begin immediate")
    # A transaction that has only read does not hold the write lock yet; this statement takes it, or fails.
    connection.execute(lock_statement)


def _fetch_plain(connection: sqlite3.Connection, statement: str) -> list[tuple[int, str, str]]:
    cursor = connection.cursor()
    cursor.row_factory = None
    return [tuple(map(_text, row)) for row in cursor.execute(statement)]  # type: ignore[misc]


def _text(value: object) -> object:
    return value.decode() if isinstance(value, bytes) else value
