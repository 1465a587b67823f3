"""Adapters for SQLAlchemy sessions and connections, with any driver.

Statements go through SQLAlchemy, not through the driver's connection. With some drivers, SQLAlchemy begins the
transaction only with the first statement that it sends itself; a statement that bypasses SQLAlchemy would be committed
at once.
"""

from collections.abc import Callable
from functools import cache
from typing import Any

from sqlalchemy import TextClause, event, orm, text
from sqlalchemy import engine as core
from sqlalchemy.ext import asyncio as aio

from tenure.connections.errors import CallerError, no_transaction_error, wrong_database_error

CALLBACKS_KEY = "tenure_after_commit"
"""Key in `session.info` of the callbacks to call after the commit."""


class Connection:
    def __init__(self, connection: core.Connection) -> None:
        self._connection = connection

    def execute(self, text: str, request: str) -> str | None:
        return _execute(self._connection, text, request)

    def transaction_check(self) -> Callable[[], bool]:
        return _transaction_check(self._connection)

    def after_commit(self, callback: Callable[[], None]) -> None:
        """Do nothing: the commit event of a connection fires before the commit is done."""


class Session:
    def __init__(self, session: "orm.Session | orm.scoped_session[Any]") -> None:
        self._session: orm.Session = session() if isinstance(session, orm.scoped_session) else session

    def execute(self, text: str, request: str) -> str | None:
        # Flush first: the job may refer to rows that the session has not written yet.
        if self._session.autoflush:
            try:
                self._session.flush()
            except Exception as exc:
                raise CallerError(exc) from exc
        return _execute(self._session.connection(), text, request)

    def transaction_check(self) -> Callable[[], bool]:
        return _transaction_check(self._session)

    def after_commit(self, callback: Callable[[], None]) -> None:
        _register_callback(self._session, callback)


class AsyncConnection:
    def __init__(self, connection: aio.AsyncConnection) -> None:
        self._connection = connection

    async def execute(self, text: str, request: str) -> str | None:
        return await self._connection.run_sync(_execute, text, request)

    def transaction_check(self) -> Callable[[], bool]:
        connection = self._connection.sync_connection
        return _always_false if connection is None else _transaction_check(connection)

    def after_commit(self, callback: Callable[[], None]) -> None:
        """Do nothing: the commit event of a connection fires before the commit is done."""


class AsyncSession:
    def __init__(self, session: "aio.AsyncSession | aio.async_scoped_session[Any]") -> None:
        self._session: aio.AsyncSession = session() if isinstance(session, aio.async_scoped_session) else session

    async def execute(self, text: str, request: str) -> str | None:
        return await self._session.run_sync(lambda session: Session(session).execute(text, request))

    def transaction_check(self) -> Callable[[], bool]:
        return _transaction_check(self._session.sync_session)

    def after_commit(self, callback: Callable[[], None]) -> None:
        _register_callback(self._session.sync_session, callback)


def _execute(connection: core.Connection, text: str, request: str) -> str | None:
    if connection.dialect.name != "postgresql":
        raise wrong_database_error(connection.dialect.name)
    if getattr(connection.connection.dbapi_connection, "autocommit", False):
        raise no_transaction_error("remove isolation_level='AUTOCOMMIT', and commit afterwards")
    value: str | None = connection.execute(_clause(text), {"request": request}).scalar_one()
    return value


@cache
def _clause(statement: str) -> TextClause:
    return text(statement)


def _transaction_check(transactional: orm.Session | core.Connection) -> Callable[[], bool]:
    """Return a function that reports whether the current transaction is still open."""
    current = transactional.get_transaction()
    return lambda: current is not None and transactional.get_transaction() is current


def _always_false() -> bool:
    return False


def _register_callback(session: orm.Session, callback: Callable[[], None]) -> None:
    callbacks: list[Callable[[], None]] = session.info.setdefault(CALLBACKS_KEY, [])
    callbacks.append(callback)
    for hook, listener in (("after_commit", _run_callbacks), ("after_transaction_end", _drop_callbacks)):
        if not event.contains(session, hook, listener):
            event.listen(session, hook, listener)


def _run_callbacks(session: orm.Session) -> None:
    if session.in_nested_transaction():  # only a savepoint was released
        return
    for call in session.info.pop(CALLBACKS_KEY, ()):
        call()


def _drop_callbacks(session: orm.Session, transaction: orm.SessionTransaction) -> None:
    if transaction.parent is None:
        session.info.pop(CALLBACKS_KEY, None)
