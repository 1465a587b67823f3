"""A user's table in a SQLite file: the layout, read on first use, and the transactions."""

import sqlite3
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import TypeGuard

from tenure.backends.shared.isolation import StatementRejected
from tenure.backends.sqlite.busy_retry import primary_code
from tenure.backends.sqlite.database import Database
from tenure.backends.sqlite.write_transaction import WriteTransaction
from tenure.backends.tables.protocol import Finding
from tenure.backends.tables.sqlite.catalogue import schema_version
from tenure.backends.tables.sqlite.column_checks import check_conditions, read_layout
from tenure.backends.tables.sqlite.layout import Layout
from tenure.backends.tables.sqlite.sql_templates import has_invalid_statement
from tenure.core.table.spec import TableSpec, quote_identifier
from tenure.errors import ConfigurationError, StoreUnavailable

WRITE_REJECTION_CODES = frozenset({sqlite3.SQLITE_CONSTRAINT, sqlite3.SQLITE_MISMATCH})
"""SQLite codes of a write that the table rejects."""

REJECTION_CODES = WRITE_REJECTION_CODES | {sqlite3.SQLITE_ERROR, sqlite3.SQLITE_TOOBIG, sqlite3.SQLITE_RANGE}
"""SQLite codes of a statement that fails because of its text or its values, and will fail again."""

MOST_ERRORS_LISTED = 3
"""Maximum number of errors in one message."""


class BoundTable:
    """A table in a SQLite file. The layout is read on first use, and again after the schema has changed."""

    def __init__(self, database: Database, spec: TableSpec) -> None:
        self.database = database
        self.spec = spec
        self._layout: Layout | None = None

    @contextmanager
    def writing(self) -> Iterator[tuple[WriteTransaction, Layout]]:
        """Yield a write transaction; commit when the block ends, roll back on an exception."""
        try:
            with self.database.write_transaction() as write, self._rejections_raised(write.db):
                yield write, self.usable_layout(write.db)
        except StoreUnavailable as exc:
            # Outside the block above, SQLite checks deferred foreign keys and writes full-text indexes at the commit.
            cause = exc.__cause__
            if not isinstance(cause, sqlite3.IntegrityError) and not _is_virtual_table_damaged(cause):
                raise
            raise self._rejection(cause) from cause

    @contextmanager
    def reading(self) -> Iterator[tuple[sqlite3.Connection, int, Layout]]:
        """Yield a connection in a read transaction, with the current time."""
        with self.database.read_transaction() as (db, now), self._rejections_raised(db):
            yield db, now, self.usable_layout(db)

    @contextmanager
    def joining(self, connection: object) -> Iterator[tuple[WriteTransaction, Layout]]:
        """Yield the transaction on the caller's connection. The caller commits."""
        if self._layout is None:
            # Raise for an unusable table before touching the caller's connection.
            with self.reading():
                pass
        key = quote_identifier(self.spec.key[0])
        lock_statement = f"update main.{quote_identifier(self.spec.name)} set {key} = {key} where false"  # noqa: S608 - quoted
        with self.database.caller_transaction(connection, lock_statement) as write, self._rejections_raised(write.db):
            yield write, self.usable_layout(write.db, is_committed=False)

    def usable_layout(self, db: sqlite3.Connection, *, is_committed: bool = True) -> Layout:
        """Return the layout that this connection sees; raise if rows cannot be claimed."""
        layout = self._layout
        if layout is None or layout.schema_version != schema_version(db):
            layout = read_layout(db, self.spec)
            if layout.errors:
                raise _unusable_error(self.spec, layout.errors)
            check_conditions(db, layout)
            if is_committed:
                self._layout = layout
        return layout

    @contextmanager
    def _rejections_raised(self, db: sqlite3.Connection) -> Iterator[None]:
        """Raise `StatementRejected` for errors caused by the table itself: a retry would fail again."""
        try:
            yield
        except sqlite3.Error as exc:
            if primary_code(exc) not in REJECTION_CODES and not _is_virtual_table_damaged(exc):
                raise
            layout, is_generic = self._layout, primary_code(exc) == sqlite3.SQLITE_ERROR
            is_invalid = is_generic and layout is not None and has_invalid_statement(db, layout)
            raise self._rejection(exc, is_invalid=is_invalid) from exc

    def _rejection(self, error: sqlite3.Error, *, is_invalid: bool = False) -> StatementRejected:
        name, reason = self.spec.display_name, _reason_of(error)
        message = (
            f"table {name!r} rejects a write of tenure: {reason}; check the table with `tenure doctor`"
            if primary_code(error) in WRITE_REJECTION_CODES
            else f"a statement on table {name!r} failed: {reason}; check where, done_if and the triggers"
        )
        return StatementRejected(message, reason=reason, is_invalid=is_invalid)


def _is_virtual_table_damaged(error: BaseException | None) -> TypeGuard[sqlite3.Error]:
    """Return whether a virtual table is damaged: the message is that of a damaged file, but the file is intact."""
    return getattr(error, "sqlite_errorcode", 0) == sqlite3.SQLITE_CORRUPT_VTAB


def _reason_of(error: sqlite3.Error) -> str:
    if not _is_virtual_table_damaged(error):
        return str(error)
    return f"a virtual table, such as a full-text index, is damaged or does not match the row ({error}); rebuild it"


def _unusable_error(spec: TableSpec, errors: Sequence[Finding]) -> ConfigurationError:
    texts = [each.text for each in errors[:MOST_ERRORS_LISTED]]
    texts += [f"and {len(errors) - MOST_ERRORS_LISTED} more"] if len(errors) > MOST_ERRORS_LISTED else []
    remedies = "; ".join(dict.fromkeys(str(each.remedy) for each in errors))
    return ConfigurationError(f"cannot claim rows of table {spec.display_name!r}: {', '.join(texts)}; {remedies}")
