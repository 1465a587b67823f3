"""Adapt the caller's connection to PostgreSQL, for all supported drivers.

The name of the connection's class selects the adapter, so drivers that are not installed are never imported. A
statement of tenure has one parameter, `:request`, and returns one text.
"""

from asyncio import AbstractEventLoop
from collections.abc import Callable, Mapping
from importlib import import_module
from typing import Any, NamedTuple, Protocol

from tenure.connections.loops import LoopConnection
from tenure.core import checks
from tenure.errors import ConfigurationError

IsTransactionOpen = Callable[[], bool]
"""Returns whether a transaction is still open, without a round trip."""


class CallerConnection(Protocol):
    """The operations on the caller's connection."""

    def execute(self, text: str, request: str) -> str | None:
        """Run the statement in the connection's transaction; begin one if necessary; raise in autocommit mode."""
        ...

    def transaction_check(self) -> IsTransactionOpen:
        """Return a function that reports whether the current transaction is still open."""
        ...

    def after_commit(self, callback: Callable[[], None]) -> None:
        """Call `callback` after the commit, if the driver has a commit hook."""
        ...


class AdapterKind(NamedTuple):
    """Module and class of an adapter, and whether its connections are async."""

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
"""The adapter by the full name of the connection's class, or of a base class."""


def adapt_connection(connection: object) -> CallerConnection:
    """Return the adapter of a connection; raise for an async connection or an unsupported object."""
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
    """Return an adapter that lets a thread use an async connection on its event loop; None if it is not async."""
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
