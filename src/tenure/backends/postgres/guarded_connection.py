"""A connection for one transaction of the caller.

Every transaction gets a new connection object, possibly over a reused session. The session has the server's default
settings: ours suit only tenure's own statements.
"""

import os
from collections.abc import Callable
from types import TracebackType
from typing import Any, NoReturn, Self

import psycopg
from psycopg import sql
from psycopg.abc import Query
from psycopg.rows import tuple_row

from tenure.backends.shared import forking
from tenure.backends.shared.guarded_transaction import ENDS_WITH_BLOCK, reject_ending
from tenure.errors import ConfigurationError

TRANSACTION_START = "select extract(epoch from transaction_timestamp())"

RESET_SESSION = (
    "reset session authorization; reset all; deallocate all; close all; unlisten *; discard temp; discard sequences; "
    "select pg_advisory_unlock_all()"
)
"""Reset a used session to its initial state. Unlike `discard all`, keep the cached plans of our functions."""

NO_COMMIT = f"{ENDS_WITH_BLOCK}; remove the call of commit()"
NO_ROLLBACK = f"{ENDS_WITH_BLOCK}; raise an exception instead of calling rollback()"
NO_CLOSE = f"{ENDS_WITH_BLOCK}; do not close the connection inside the block"
USED_AFTER_END = "this connection was for one transaction, which has ended; do not use it after the block"
NO_BLOCK = f"{ENDS_WITH_BLOCK}; do not use `with connection`, which would end it early"
ENDED_EARLY = (
    f"{ENDS_WITH_BLOCK}, but a statement ended it early; its writes may be committed, and the job is not completed"
)


class GuardedCursor(psycopg.Cursor[Any]):
    """Rejects statements that would end the transaction."""

    def execute(self, query: Query, *args: Any, **options: Any) -> Self:
        reject_ending(_text(query))
        return super().execute(query, *args, **options)

    def executemany(self, query: Query, *args: Any, **options: Any) -> None:
        reject_ending(_text(query))
        super().executemany(query, *args, **options)


class GuardedConnection(psycopg.Connection[Any]):
    """A connection whose transaction ends with its block and not earlier: it must include the completion of the job."""

    _is_in_block = False
    _is_done = False

    def __init__(self, *args: Any, **options: Any) -> None:
        super().__init__(*args, **options)
        self.cursor_factory = GuardedCursor
        self.prepare_threshold = None
        self._owner_pid = os.getpid()
        self.after_commit: list[Callable[[], None]] = []
        self._start: Any = None

    def reset_session(self) -> None:
        """Reset the session to its initial state."""
        self.autocommit = True
        psycopg.Cursor(self).execute(RESET_SESSION)
        self.autocommit = False

    def begin(self) -> None:
        self.isolation_level = psycopg.IsolationLevel.READ_COMMITTED
        self._is_in_block = True
        self._start = self._transaction_start()

    def commit_block(self) -> None:
        """Commit; raise if a statement of the caller has already ended the transaction."""
        if self._transaction_start() != self._start:
            raise ConfigurationError(ENDED_EARLY)
        super().commit()
        self._is_in_block = False
        self._is_done = True

    def abort(self) -> None:
        """Close the connection, which rolls back. In a forked child leave it open: the parent owns the session."""
        self._is_in_block = False
        if self._owner_pid == os.getpid():
            super().close()
        else:
            forking.abandon([self.pgconn])

    def cursor(self, *args: Any, **options: Any) -> Any:
        if not self._is_in_block:
            raise ConfigurationError(USED_AFTER_END)
        return super().cursor(*args, **options)

    def wait(self, *args: Any, **options: Any) -> Any:
        # Every statement passes through here, including those of a cursor created inside the block.
        if self._is_done:
            raise ConfigurationError(USED_AFTER_END)
        return super().wait(*args, **options)

    def __del__(self, *args: Any) -> None:
        # After the block, another transaction may use the session.
        if self._is_in_block:
            super().__del__(*args)

    def commit(self) -> NoReturn:
        raise ConfigurationError(NO_COMMIT)

    def rollback(self) -> NoReturn:
        raise ConfigurationError(NO_ROLLBACK)

    def close(self) -> None:
        if self._is_in_block:
            raise ConfigurationError(NO_CLOSE)
        if not self._is_done:
            super().close()

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> NoReturn:
        raise ConfigurationError(NO_BLOCK)

    def _transaction_start(self) -> Any:
        """Return the start time, which identifies the transaction within its session."""
        return self.cursor(row_factory=tuple_row).execute(TRANSACTION_START).fetchone()


class AsyncGuardedCursor(psycopg.AsyncCursor[Any]):
    """Rejects statements that would end the transaction."""

    async def execute(self, query: Query, *args: Any, **options: Any) -> Self:
        reject_ending(_text(query))
        return await super().execute(query, *args, **options)

    async def executemany(self, query: Query, *args: Any, **options: Any) -> None:
        reject_ending(_text(query))
        await super().executemany(query, *args, **options)


class AsyncGuardedConnection(psycopg.AsyncConnection[Any]):
    """The guarded connection for an event loop."""

    _is_in_block = False
    _is_done = False

    def __init__(self, *args: Any, **options: Any) -> None:
        super().__init__(*args, **options)
        self.cursor_factory = AsyncGuardedCursor
        self.prepare_threshold = None
        self.after_commit: list[Callable[[], None]] = []
        self._start: Any = None

    async def reset_session(self) -> None:
        """Reset the session to its initial state."""
        await self.set_autocommit(True)
        await psycopg.AsyncCursor(self).execute(RESET_SESSION)
        await self.set_autocommit(False)

    async def begin(self) -> None:
        await self.set_isolation_level(psycopg.IsolationLevel.READ_COMMITTED)
        self._is_in_block = True
        self._start = await self._transaction_start()

    async def commit_block(self) -> None:
        """Commit; raise if a statement of the caller has already ended the transaction."""
        if await self._transaction_start() != self._start:
            raise ConfigurationError(ENDED_EARLY)
        await super().commit()
        self._is_in_block = False
        self._is_done = True

    async def abort(self) -> None:
        """Close the connection, which rolls back."""
        self._is_in_block = False
        await super().close()

    def cursor(self, *args: Any, **options: Any) -> Any:
        if not self._is_in_block:
            raise ConfigurationError(USED_AFTER_END)
        return super().cursor(*args, **options)

    async def wait(self, *args: Any, **options: Any) -> Any:
        # Every statement passes through here, including those of a cursor created inside the block.
        if self._is_done:
            raise ConfigurationError(USED_AFTER_END)
        return await super().wait(*args, **options)

    def __del__(self, *args: Any) -> None:
        # After the block, another transaction may use the session.
        if self._is_in_block:
            super().__del__(*args)

    async def commit(self) -> NoReturn:
        raise ConfigurationError(NO_COMMIT)

    async def rollback(self) -> NoReturn:
        raise ConfigurationError(NO_ROLLBACK)

    async def close(self) -> None:
        if self._is_in_block:
            raise ConfigurationError(NO_CLOSE)
        if not self._is_done:
            await super().close()

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> NoReturn:
        raise ConfigurationError(NO_BLOCK)

    async def _transaction_start(self) -> Any:
        """Return the start time, which identifies the transaction within its session."""
        return await (await self.cursor(row_factory=tuple_row).execute(TRANSACTION_START)).fetchone()


def _text(query: Query) -> str:
    if isinstance(query, sql.Composable):
        return query.as_string()
    return query.decode(errors="replace") if isinstance(query, bytes) else str(query)
