"""A connection of the caller's to PostgreSQL, whatever driver it is of.

It is told by the name of its class, so that no driver is imported which is not there. A statement of ours has one
value, `:asked`, and answers with one text.
"""

from asyncio import AbstractEventLoop
from collections.abc import Callable, Mapping
from importlib import import_module
from typing import Any, NamedTuple, Protocol

from tenure.connections.loops import OnLoop
from tenure.core import checks
from tenure.errors import ConfigurationError

IsOpen = Callable[[], bool]
"""Tells whether a transaction is still to be committed or rolled back. It asks nobody."""


class Caller(Protocol):
    """What is done with a connection of the caller's."""

    def ask(self, text: str, asked: str) -> str | None:
        """Run the statement in the connection's transaction, begun if need be; refuse a connection that has none."""
        ...

    def in_transaction(self) -> IsOpen:
        """Return what tells whether the present transaction is still open."""
        ...

    def after_commit(self, call: Callable[[], None]) -> None:
        """Call this after the commit, if the connection tells of it."""
        ...


class Kind(NamedTuple):
    """Where the class is that knows a kind of connection, and whether that has to be awaited."""

    module: str
    name: str
    is_async: bool = False


KINDS: Mapping[str, Kind] = {
    "asyncpg.connection.Connection": Kind("asyncpg", "Connection", is_async=True),
    "asyncpg.pool.PoolConnectionProxy": Kind("asyncpg", "Connection", is_async=True),
    "django.db.backends.base.base.BaseDatabaseWrapper": Kind("django", "Connection"),
    "django.utils.connection.ConnectionProxy": Kind("django", "Connection"),
    "psycopg.AsyncConnection": Kind("psycopg", "AsyncConnection", is_async=True),
    "psycopg.Connection": Kind("psycopg", "Connection"),
    "psycopg2.extensions.connection": Kind("psycopg2", "Connection"),
    "sqlalchemy.engine.base.Connection": Kind("sqlalchemy", "Connection"),
    "sqlalchemy.ext.asyncio.engine.AsyncConnection": Kind("sqlalchemy", "AsyncConnection", is_async=True),
    "sqlalchemy.ext.asyncio.scoping.async_scoped_session": Kind("sqlalchemy", "AsyncSession", is_async=True),
    "sqlalchemy.ext.asyncio.session.AsyncSession": Kind("sqlalchemy", "AsyncSession", is_async=True),
    "sqlalchemy.orm.scoping.scoped_session": Kind("sqlalchemy", "Session"),
    "sqlalchemy.orm.session.Session": Kind("sqlalchemy", "Session"),
}
"""By the full name of the class of a connection, or of one that it is derived from."""


def caller_of(connection: object) -> Caller:
    """Return the connection as it is used here, or raise for what is none, or would have to be awaited."""
    if isinstance(connection, OnLoop):
        return connection
    kind = _kind_of(connection)
    if kind is None:
        raise ConfigurationError(
            "connection must be one of psycopg, psycopg2, asyncpg, SQLAlchemy (a session or a connection) or Django, "
            f"not {checks.shown(connection)}"
        )
    if kind.is_async:
        raise TypeError(
            f"{_name_of(type(connection))} has to be awaited, and this call does not: use its twin in `.aio`, as in "
            "`await jobs.aio.enqueue(…, connection=…)` or `await claim.aio.complete(…, connection=…)`"
        )
    adapted: Caller = _adapted(kind, connection)
    return adapted


def awaited_on(loop: AbstractEventLoop, connection: object) -> OnLoop | None:
    """Return an async connection as a thread can use it beside its event loop; None if it is not async."""
    kind = _kind_of(connection)
    return OnLoop(loop, connection, _adapted(kind, connection)) if kind is not None and kind.is_async else None


def _kind_of(connection: object) -> Kind | None:
    names = (_name_of(each) for each in type(connection).__mro__)
    return next((KINDS[name] for name in names if name in KINDS), None)


def _adapted(kind: Kind, connection: object) -> Any:
    return getattr(import_module(f"tenure.connections.{kind.module}"), kind.name)(connection)


def _name_of(kind: type) -> str:
    return f"{kind.__module__}.{kind.__qualname__}"
