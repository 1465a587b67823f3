"""Sessions and connections of SQLAlchemy, over whatever driver.

Statements are given to SQLAlchemy and not to the driver's own connection: it begins the transaction of some drivers
only when it sends the first statement itself, and what went past it would be committed at once.
"""

from collections.abc import Callable
from functools import cache
from typing import Any

from sqlalchemy import TextClause, event, orm, text
from sqlalchemy import engine as core
from sqlalchemy.ext import asyncio as aio

from tenure.connections.refusals import CallersOwn, no_transaction, other_database

CALLS = "tenure_after_commit"
"""Under this name a session keeps what is to be called after its commit."""


class Connection:
    def __init__(self, connection: core.Connection) -> None:
        self._connection = connection

    def ask(self, text: str, asked: str) -> str | None:
        return _ask(self._connection, text, asked)

    def in_transaction(self) -> Callable[[], bool]:
        return _still(self._connection)

    def after_commit(self, call: Callable[[], None]) -> None:
        """It tells of a commit before that is done, so that nobody is to be called."""


class Session:
    def __init__(self, session: "orm.Session | orm.scoped_session[Any]") -> None:
        self._session: orm.Session = session() if isinstance(session, orm.scoped_session) else session

    def ask(self, text: str, asked: str) -> str | None:
        # What the session has not written yet may be what the job is about.
        if self._session.autoflush:
            try:
                self._session.flush()
            except Exception as exc:
                raise CallersOwn(exc) from exc
        return _ask(self._session.connection(), text, asked)

    def in_transaction(self) -> Callable[[], bool]:
        return _still(self._session)

    def after_commit(self, call: Callable[[], None]) -> None:
        _after_commit(self._session, call)


class AsyncConnection:
    def __init__(self, connection: aio.AsyncConnection) -> None:
        self._connection = connection

    async def ask(self, text: str, asked: str) -> str | None:
        return await self._connection.run_sync(_ask, text, asked)

    def in_transaction(self) -> Callable[[], bool]:
        connection = self._connection.sync_connection
        return _never if connection is None else _still(connection)

    def after_commit(self, call: Callable[[], None]) -> None:
        """It tells of a commit before that is done, so that nobody is to be called."""


class AsyncSession:
    def __init__(self, session: "aio.AsyncSession | aio.async_scoped_session[Any]") -> None:
        self._session: aio.AsyncSession = session() if isinstance(session, aio.async_scoped_session) else session

    async def ask(self, text: str, asked: str) -> str | None:
        return await self._session.run_sync(lambda session: Session(session).ask(text, asked))

    def in_transaction(self) -> Callable[[], bool]:
        return _still(self._session.sync_session)

    def after_commit(self, call: Callable[[], None]) -> None:
        _after_commit(self._session.sync_session, call)


def _ask(connection: core.Connection, text: str, asked: str) -> str | None:
    if connection.dialect.name != "postgresql":
        raise other_database(connection.dialect.name)
    if getattr(connection.connection.dbapi_connection, "autocommit", False):
        raise no_transaction("leave out isolation_level='AUTOCOMMIT', and commit afterwards")
    answer: str | None = connection.execute(_clause(text), {"asked": asked}).scalar_one()
    return answer


@cache
def _clause(statement: str) -> TextClause:
    return text(statement)


def _still(transactional: orm.Session | core.Connection) -> Callable[[], bool]:
    """Return what tells whether the present transaction is still the one that is open."""
    begun = transactional.get_transaction()
    return lambda: begun is not None and transactional.get_transaction() is begun


def _never() -> bool:
    return False


def _after_commit(session: orm.Session, call: Callable[[], None]) -> None:
    waiting: list[Callable[[], None]] = session.info.setdefault(CALLS, [])
    waiting.append(call)
    for moment, listener in (("after_commit", _call_all), ("after_transaction_end", _forget_all)):
        if not event.contains(session, moment, listener):
            event.listen(session, moment, listener)


def _call_all(session: orm.Session) -> None:
    if session.in_nested_transaction():  # only a savepoint was released
        return
    for call in session.info.pop(CALLS, ()):
        call()


def _forget_all(session: orm.Session, transaction: orm.SessionTransaction) -> None:
    if transaction.parent is None:
        session.info.pop(CALLS, None)
