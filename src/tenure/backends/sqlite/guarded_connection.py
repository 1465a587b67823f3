"""The connection of a `claim.transaction()` block."""

import sqlite3
from contextlib import suppress
from typing import Any, NoReturn, Self

from tenure.backends.shared.guarded_transaction import ENDS_WITH_BLOCK, reject_ending
from tenure.backends.sqlite.busy_retry import retry_while_busy
from tenure.errors import ConfigurationError


class GuardedConnection(sqlite3.Connection):
    """A connection whose transaction cannot end before its block: it must contain the completion of the job."""

    is_open = False

    def begin(self, ends_at: float) -> None:
        retry_while_busy(super().execute, "begin immediate", ends_at)
        self.is_open = True

    def end(self, ends_at: float) -> None:
        self.require_open()
        retry_while_busy(super().execute, "commit", ends_at)

    def abort(self) -> None:
        """Roll back an uncommitted transaction, and close the connection. A second call does nothing."""
        with suppress(sqlite3.ProgrammingError):  # already closed
            if self.in_transaction:
                super().execute("rollback")
        self.is_open = False
        super().close()

    def require_open(self) -> None:
        if not self.in_transaction:
            raise ConfigurationError(
                "SQLite rolled back this transaction, because of an `or rollback` statement or a fatal error; nothing "
                "of it was written. Leave the block, and retry the job"
            )

    def cursor(self, *_: Any) -> "GuardedCursor":  # type: ignore[override]
        return super().cursor(GuardedCursor)

    def execute(self, statement: str, *values: Any) -> sqlite3.Cursor:
        return self.cursor().execute(statement, *values)

    def executemany(self, statement: str, values: Any, /) -> sqlite3.Cursor:
        return self.cursor().executemany(statement, values)

    def executescript(self, script: str, /) -> NoReturn:
        self.cursor().executescript(script)

    def commit(self) -> NoReturn:
        raise ConfigurationError(f"{ENDS_WITH_BLOCK}; remove the call of commit()")

    def rollback(self) -> NoReturn:
        raise ConfigurationError(f"{ENDS_WITH_BLOCK}; raise an exception instead of calling rollback()")

    def close(self) -> None:
        if self.is_open:
            raise ConfigurationError(f"{ENDS_WITH_BLOCK}; do not close the connection inside the block")
        super().close()

    def __exit__(self, *_: object) -> NoReturn:
        raise ConfigurationError(f"{ENDS_WITH_BLOCK}; do not use `with connection`, which would end it early")


class GuardedCursor(sqlite3.Cursor):
    """A cursor that checks every statement first; a SQLite authorizer would swallow a KeyboardInterrupt."""

    connection: GuardedConnection

    def execute(self, statement: str, *values: Any) -> Self:
        self._check(statement)
        return super().execute(statement, *values)

    def executemany(self, statement: str, values: Any, /) -> Self:
        self._check(statement)
        return super().executemany(statement, values)

    def executescript(self, script: str, /) -> NoReturn:  # noqa: ARG002
        raise ConfigurationError(
            f"{ENDS_WITH_BLOCK}, but executescript would commit early; execute the statements one by one"
        )

    def _check(self, statement: str) -> None:
        if not self.connection.is_open:
            return
        self.connection.require_open()
        reject_ending(statement)
