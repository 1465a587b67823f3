"""The connection that a caller gets for one transaction."""

import sqlite3
from contextlib import suppress
from typing import Any, NoReturn, Self

from tenure.backends.shared.guarded_transaction import OURS, refuse_to_end
from tenure.backends.sqlite.busy_retry import patiently
from tenure.errors import ConfigurationError


class OneTransaction(sqlite3.Connection):
    """A connection whose transaction ends with its block, not before: the completion has to be in it."""

    is_open = False

    def begin(self, ends_at: float) -> None:
        patiently(super().execute, "begin immediate", ends_at)
        self.is_open = True

    def end(self, ends_at: float) -> None:
        self.must_be_open()
        patiently(super().execute, "commit", ends_at)

    def undo(self) -> None:
        """Roll back what was not committed, and close the connection for good. Again, it does nothing."""
        with suppress(sqlite3.ProgrammingError):  # it is closed
            if self.in_transaction:
                super().execute("rollback")
        self.is_open = False
        super().close()

    def must_be_open(self) -> None:
        if not self.in_transaction:
            raise ConfigurationError(
                "this transaction was rolled back by SQLite, by a statement that says so or an error after which it "
                "cannot go on; nothing of it is written, and nothing more can be"
            )

    def cursor(self, *_: Any) -> "OneCursor":  # type: ignore[override]
        return super().cursor(OneCursor)

    def execute(self, statement: str, *values: Any) -> sqlite3.Cursor:
        return self.cursor().execute(statement, *values)

    def executemany(self, statement: str, values: Any, /) -> sqlite3.Cursor:
        return self.cursor().executemany(statement, values)

    def executescript(self, script: str, /) -> NoReturn:
        self.cursor().executescript(script)

    def commit(self) -> NoReturn:
        raise ConfigurationError(f"{OURS}; leave the commit to it")

    def rollback(self) -> NoReturn:
        raise ConfigurationError(f"{OURS}; raise one to undo it")

    def close(self) -> None:
        if self.is_open:
            raise ConfigurationError(f"{OURS}; leave the connection open")
        super().close()

    def __exit__(self, *_: object) -> NoReturn:
        raise ConfigurationError(f"{OURS}; `with connection` would end it before, so leave that out")


class OneCursor(sqlite3.Cursor):
    """Looks at each statement first; an authorizer of SQLite's would swallow a KeyboardInterrupt."""

    connection: OneTransaction

    def execute(self, statement: str, *values: Any) -> Self:
        self._check(statement)
        return super().execute(statement, *values)

    def executemany(self, statement: str, values: Any, /) -> Self:
        self._check(statement)
        return super().executemany(statement, values)

    def executescript(self, script: str, /) -> NoReturn:  # noqa: ARG002
        raise ConfigurationError(f"{OURS}, and executescript would commit before; execute the statements one by one")

    def _check(self, statement: str) -> None:
        if not self.connection.is_open:
            return
        self.connection.must_be_open()
        refuse_to_end(statement)
