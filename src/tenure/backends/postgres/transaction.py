"""The connection that a caller gets for one transaction.

Its session has the server's own settings: what they are for statements of ours does not suit everybody's.
"""

from collections.abc import Callable
from types import TracebackType
from typing import Any, NoReturn, Self

import psycopg
from psycopg import sql
from psycopg.abc import Query
from psycopg.rows import tuple_row

from tenure.backends.sql.one_transaction import OURS, refuse_to_end
from tenure.errors import ConfigurationError

BEGUN = "select transaction_timestamp()"

NO_COMMIT = f"{OURS}; leave the commit to it"
NO_ROLLBACK = f"{OURS}; raise one to undo it"
NO_CLOSE = f"{OURS}; leave the connection open"
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

    def __init__(self, *args: Any, **options: Any) -> None:
        super().__init__(*args, **options)
        self.cursor_factory = OneCursor
        self.isolation_level = psycopg.IsolationLevel.READ_COMMITTED
        self.after_commit: list[Callable[[], None]] = []
        self._begun: Any = None
        self._is_in_block = False

    def begin(self) -> None:
        self._begun, self._is_in_block = self._moment(), True

    def end(self) -> None:
        """Commit, if it is still the same transaction."""
        if self._moment() != self._begun:
            raise ConfigurationError(ENDED)
        super().commit()

    def undo(self) -> None:
        """Be closed; what was not committed is undone."""
        self._is_in_block = False
        super().close()

    def commit(self) -> NoReturn:
        raise ConfigurationError(NO_COMMIT)

    def rollback(self) -> NoReturn:
        raise ConfigurationError(NO_ROLLBACK)

    def close(self) -> None:
        if self._is_in_block:
            raise ConfigurationError(NO_CLOSE)
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

    def __init__(self, *args: Any, **options: Any) -> None:
        super().__init__(*args, **options)
        self.cursor_factory = OneAsyncCursor
        self._isolation_level = psycopg.IsolationLevel.READ_COMMITTED
        self.after_commit: list[Callable[[], None]] = []
        self._begun: Any = None
        self._is_in_block = False

    async def begin(self) -> None:
        self._begun, self._is_in_block = await self._moment(), True

    async def end(self) -> None:
        """Commit, if it is still the same transaction."""
        if await self._moment() != self._begun:
            raise ConfigurationError(ENDED)
        await super().commit()

    async def undo(self) -> None:
        """Be closed; what was not committed is undone."""
        self._is_in_block = False
        await super().close()

    async def commit(self) -> NoReturn:
        raise ConfigurationError(NO_COMMIT)

    async def rollback(self) -> NoReturn:
        raise ConfigurationError(NO_ROLLBACK)

    async def close(self) -> None:
        if self._is_in_block:
            raise ConfigurationError(NO_CLOSE)
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
