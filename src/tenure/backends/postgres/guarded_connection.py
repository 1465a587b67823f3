"""The connection that a caller gets for one transaction.

It is a new one each time, over a session that may have been used before. The session has the server's own settings:
what they are for statements of ours does not suit everybody's.
"""

import os
from collections.abc import Callable
from types import TracebackType
from typing import Any, NoReturn, Self

import psycopg
from psycopg import sql
from psycopg.abc import Query
from psycopg.rows import tuple_row

from tenure.backends.shared import forking as forks
from tenure.backends.shared.guarded_transaction import OURS, refuse_to_end
from tenure.errors import ConfigurationError

BEGUN = "select extract(epoch from transaction_timestamp())"

RENEW = (
    "reset session authorization; reset all; deallocate all; close all; unlisten *; discard temp; discard sequences; "
    "select pg_advisory_unlock_all()"
)
"""Makes a session that somebody has used as it was at first, but for what the server has read of our functions."""

NO_COMMIT = f"{OURS}; leave the commit to it"
NO_ROLLBACK = f"{OURS}; raise one to undo it"
NO_CLOSE = f"{OURS}; leave the connection open"
OVER = "this connection was for one transaction, which has ended; leave it alone"
NO_BLOCK = f"{OURS}; `with connection` would end it before, so leave that out"
ENDED = f"{OURS}, and a statement has ended it before; what it wrote may be committed, and the job is not completed"


class OneCursor(psycopg.Cursor[Any]):
    """Looks at each statement first."""

    def execute(self, query: Query, *args: Any, **options: Any) -> Self:
        refuse_to_end(_text(query))
        return super().execute(query, *args, **options)

    def executemany(self, query: Query, *args: Any, **options: Any) -> None:
        refuse_to_end(_text(query))
        super().executemany(query, *args, **options)


class OneTransaction(psycopg.Connection[Any]):
    """A connection whose transaction ends with its block, not before: the completion has to be in it."""

    _is_in_block = False
    _is_over = False

    def __init__(self, *args: Any, **options: Any) -> None:
        super().__init__(*args, **options)
        self.cursor_factory = OneCursor
        self.prepare_threshold = None
        self._process = os.getpid()
        self.after_commit: list[Callable[[], None]] = []
        self._begun: Any = None

    def renew(self) -> None:
        """Be as a new one."""
        self.autocommit = True
        psycopg.Cursor(self).execute(RENEW)
        self.autocommit = False

    def begin(self) -> None:
        self.isolation_level = psycopg.IsolationLevel.READ_COMMITTED
        self._is_in_block = True
        self._begun = self._moment()

    def end(self) -> None:
        """Commit, if it is still the same transaction."""
        if self._moment() != self._begun:
            raise ConfigurationError(ENDED)
        super().commit()
        self._is_in_block = False
        self._is_over = True

    def undo(self) -> None:
        """Be closed; what was not committed is undone. In a forked child it is the parent's, and goes on."""
        self._is_in_block = False
        if self._process == os.getpid():
            super().close()
        else:
            forks.abandon([self.pgconn])

    def cursor(self, *args: Any, **options: Any) -> Any:
        if not self._is_in_block:
            raise ConfigurationError(OVER)
        return super().cursor(*args, **options)

    def wait(self, *args: Any, **options: Any) -> Any:
        # Every statement comes here, also of a cursor that was made in the block.
        if self._is_over:
            raise ConfigurationError(OVER)
        return super().wait(*args, **options)

    def __del__(self, *args: Any) -> None:
        # Afterwards the session is another's.
        if self._is_in_block:
            super().__del__(*args)

    def commit(self) -> NoReturn:
        raise ConfigurationError(NO_COMMIT)

    def rollback(self) -> NoReturn:
        raise ConfigurationError(NO_ROLLBACK)

    def close(self) -> None:
        if self._is_in_block:
            raise ConfigurationError(NO_CLOSE)
        if not self._is_over:
            super().close()

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> NoReturn:
        raise ConfigurationError(NO_BLOCK)

    def _moment(self) -> Any:
        """Return what no other transaction of this session has."""
        return self.cursor(row_factory=tuple_row).execute(BEGUN).fetchone()


class OneAsyncCursor(psycopg.AsyncCursor[Any]):
    """Looks at each statement first."""

    async def execute(self, query: Query, *args: Any, **options: Any) -> Self:
        refuse_to_end(_text(query))
        return await super().execute(query, *args, **options)

    async def executemany(self, query: Query, *args: Any, **options: Any) -> None:
        refuse_to_end(_text(query))
        await super().executemany(query, *args, **options)


class OneAsyncTransaction(psycopg.AsyncConnection[Any]):
    """The same for an event loop."""

    _is_in_block = False
    _is_over = False

    def __init__(self, *args: Any, **options: Any) -> None:
        super().__init__(*args, **options)
        self.cursor_factory = OneAsyncCursor
        self.prepare_threshold = None
        self.after_commit: list[Callable[[], None]] = []
        self._begun: Any = None

    async def renew(self) -> None:
        """Be as a new one."""
        await self.set_autocommit(True)
        await psycopg.AsyncCursor(self).execute(RENEW)
        await self.set_autocommit(False)

    async def begin(self) -> None:
        await self.set_isolation_level(psycopg.IsolationLevel.READ_COMMITTED)
        self._is_in_block = True
        self._begun = await self._moment()

    async def end(self) -> None:
        """Commit, if it is still the same transaction."""
        if await self._moment() != self._begun:
            raise ConfigurationError(ENDED)
        await super().commit()
        self._is_in_block = False
        self._is_over = True

    async def undo(self) -> None:
        """Be closed; what was not committed is undone."""
        self._is_in_block = False
        await super().close()

    def cursor(self, *args: Any, **options: Any) -> Any:
        if not self._is_in_block:
            raise ConfigurationError(OVER)
        return super().cursor(*args, **options)

    async def wait(self, *args: Any, **options: Any) -> Any:
        # Every statement comes here, also of a cursor that was made in the block.
        if self._is_over:
            raise ConfigurationError(OVER)
        return await super().wait(*args, **options)

    def __del__(self, *args: Any) -> None:
        # Afterwards the session is another's.
        if self._is_in_block:
            super().__del__(*args)

    async def commit(self) -> NoReturn:
        raise ConfigurationError(NO_COMMIT)

    async def rollback(self) -> NoReturn:
        raise ConfigurationError(NO_ROLLBACK)

    async def close(self) -> None:
        if self._is_in_block:
            raise ConfigurationError(NO_CLOSE)
        if not self._is_over:
            await super().close()

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> NoReturn:
        raise ConfigurationError(NO_BLOCK)

    async def _moment(self) -> Any:
        """Return what no other transaction of this session has."""
        return await (await self.cursor(row_factory=tuple_row).execute(BEGUN)).fetchone()


def _text(query: Query) -> str:
    if isinstance(query, sql.Composable):
        return query.as_string()
    return query.decode(errors="replace") if isinstance(query, bytes) else str(query)
