"""A connection of the caller's to PostgreSQL, whatever driver it is of.

It is told by the name of its class, so that no driver is imported which is not there. A statement of ours has one
value, `:asked`, and answers with one text.
"""

from asyncio import AbstractEventLoop
from collections.abc import Callable, Mapping
from importlib import import_module
from typing import Any, NamedTuple, Protocol

from tenure.connections.loops import LoopConnection
from tenure.core import checks
from tenure.errors import ConfigurationError

IsTransactionOpen = Callable[[], bool]
"""Tells whether a transaction is still to be committed or rolled back. It asks nobody."""


class CallerConnection(Protocol):
    """What is done with a connection of the caller's."""

    def execute(self, text: str, asked: str) -> str | None:
        """Run the statement in the connection's transaction, begun if need be; refuse a connection that has none."""
        ...

    def transaction_check(self) -> IsTransactionOpen:
        """Return what tells whether the present transaction is still open."""
        ...

    def after_commit(self, callback: Callable[[], None]) -> None:
        """Call this after the commit, if the connection tells of it."""
        ...


class AdapterKind(NamedTuple):
    """Where the class is that knows a kind of connection, and whether that has to be awaited."""

    module: str
    name: str
    is_async: bool = False


ADAPTER_KINDS: Mapping[str, AdapterKind] = {
    "asyncpg.connection.Connection": AdapterKind("asyncpg", "Connection", is_async=True),
    "asyncpg.pool.PoolConnectionProxy": AdapterKind("asyncpg", "Connection", is_async=True),
    "django.db.backends.base.base.BaseDatabaseWrapper": AdapterKind("django", "Connection"),
    "django.utils.connection.ConnectionProxy": AdapterKind("django", "Connection"),
    "psycopg.AsyncConnection": AdapterKind("psycopg", "AsyncConnection", is_async=True),
    "psycopg.Connection": AdapterKind("psycopg", "Connection"),
    "psycopg2.extensions.connection": AdapterKind("psycopg2", "Connection"),
    "sqlalchemy.engine.base.Connection": AdapterKind("sqlalchemy", "Connection"),
    "sqlalchemy.ext.asyncio.engine.AsyncConnection": AdapterKind("sqlalchemy", "AsyncConnection", is_async=True),
    "sqlalchemy.ext.asyncio.scoping.async_scoped_session": AdapterKind("sqlalchemy", "AsyncSession", is_async=True),
    "sqlalchemy.ext.asyncio.session.AsyncSession": AdapterKind("sqlalchemy", "AsyncSession", is_async=True),
    "sqlalchemy.orm.scoping.scoped_session": AdapterKind("sqlalchemy", "Session"),
    "sqlalchemy.orm.session.Session": AdapterKind("sqlalchemy", "Session"),
}
"""By the full name of the class of a connection, or of one that it is derived from."""


def adapt_connection(connection: object) -> CallerConnection:
    """Return the connection as it is used here, or raise for what is none, or would have to be awaited."""
    if isinstance(connection, LoopConnection):
        return connection
    kind = _kind_of(connection)
    if kind is None:
        raise ConfigurationError(
            "connection must be of psycopg, psycopg2, asyncpg, SQLAlchemy (session or connection) or Django, "
            f"not {checks.short_repr(connection)}"
        )
    if kind.is_async:
        raise TypeError(
            f"{_class_name(type(connection))} is async, but this call is not: use `.aio`, as in "
            "`await jobs.aio.enqueue(…, connection=…)` or `await claim.aio.complete(…, connection=…)`"
        )
    adapted: CallerConnection = _build_adapter(kind, connection)
    return adapted


def adapt_async_connection(loop: AbstractEventLoop, connection: object) -> LoopConnection | None:
    """Return an async connection as a thread can use it beside its event loop; None if it is not async."""
    kind = _kind_of(connection)
    return (
        LoopConnection(loop, connection, _build_adapter(kind, connection))
        if kind is not None and kind.is_async
        else None
    )


def _kind_of(connection: object) -> AdapterKind | None:
    names = (_class_name(each) for each in type(connection).__mro__)
    return next((ADAPTER_KINDS[name] for name in names if name in ADAPTER_KINDS), None)


def _build_adapter(kind: AdapterKind, connection: object) -> Any:
    return getattr(import_module(f"tenure.connections.{kind.module}"), kind.name)(connection)


def _class_name(kind: type) -> str:
    return f"{kind.__module__}.{kind.__qualname__}"
