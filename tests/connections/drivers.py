"""Every kind of connection that a caller may have, each used as its own users do.

A kind is opened as an `Own`: a connection with a transaction that its owner writes in, commits or rolls back. Those of
drivers that do not await have the same methods, so that a test is written once.
"""

import asyncio
from abc import ABC, abstractmethod
from collections.abc import AsyncIterator, Callable, Coroutine, Iterator, Mapping
from contextlib import AbstractAsyncContextManager, asynccontextmanager, contextmanager, suppress
from dataclasses import dataclass
from typing import Any

import asyncpg
import psycopg
import psycopg2
import sqlalchemy
from django import setup
from django.conf import settings
from django.db import connections, transaction
from psycopg.conninfo import conninfo_to_dict
from sqlalchemy import URL, orm, text
from sqlalchemy.ext import asyncio as aio

import tenure

EFFECT = "insert into {schema}.effects (job) values ('{job}')"


class Own(ABC):
    """A connection of the caller in a transaction."""

    def __init__(self, connection: Any, schema: str) -> None:
        self.connection = connection
        self.schema = schema

    @abstractmethod
    async def execute(self, statement: str) -> None: ...

    @abstractmethod
    async def commit(self) -> None: ...

    @abstractmethod
    async def rollback(self) -> None: ...

    async def write(self, job: str) -> None:
        """Write the effect of a job."""
        await self.execute(EFFECT.format(schema=self.schema, job=job))

    async def enqueue(self, jobs: tenure.Jobs, type: str, **options: Any) -> str:
        return jobs.enqueue(type, connection=self.connection, **options)

    async def enqueue_many(self, jobs: tenure.Jobs, new: list[tenure.NewJob]) -> list[str]:
        return jobs.enqueue_many(new, connection=self.connection)

    async def complete(self, claim: tenure.Claim, result: object = None) -> None:
        claim.complete(result, connection=self.connection)


class OwnAwaited(Own):
    """An async connection."""

    async def enqueue(self, jobs: tenure.Jobs, type: str, **options: Any) -> str:
        return await jobs.aio.enqueue(type, connection=self.connection, **options)

    async def enqueue_many(self, jobs: tenure.Jobs, new: list[tenure.NewJob]) -> list[str]:
        return await jobs.aio.enqueue_many(new, connection=self.connection)

    async def complete(self, claim: tenure.Claim, result: object = None) -> None:
        await claim.aio.complete(result, connection=self.connection)


class OfPsycopg(Own):
    async def execute(self, statement: str) -> None:
        self.connection.execute(statement)

    async def commit(self) -> None:
        self.connection.commit()

    async def rollback(self) -> None:
        self.connection.rollback()


class OfPsycopg2(Own):
    async def execute(self, statement: str) -> None:
        with self.connection.cursor() as cursor:
            cursor.execute(statement)

    async def commit(self) -> None:
        self.connection.commit()

    async def rollback(self) -> None:
        self.connection.rollback()


class OfSQLAlchemy(Own):
    async def execute(self, statement: str) -> None:
        self.connection.execute(text(statement))

    async def commit(self) -> None:
        self.connection.commit()

    async def rollback(self) -> None:
        self.connection.rollback()


class OfDjango(Own):
    def __init__(self, connection: Any, schema: str) -> None:
        super().__init__(connection, schema)
        self._block = transaction.atomic(using=connection.alias)
        self._block.__enter__()

    async def execute(self, statement: str) -> None:
        with self.connection.cursor() as cursor:
            cursor.execute(statement)

    async def commit(self) -> None:
        self._block.__exit__(None, None, None)

    async def rollback(self) -> None:
        transaction.set_rollback(True, using=self.connection.alias)
        self._block.__exit__(None, None, None)


class OfAwaitedPsycopg(OwnAwaited):
    async def execute(self, statement: str) -> None:
        await self.connection.execute(statement)

    async def commit(self) -> None:
        await self.connection.commit()

    async def rollback(self) -> None:
        await self.connection.rollback()


class OfAsyncpg(OwnAwaited):
    def __init__(self, connection: Any, schema: str) -> None:
        super().__init__(connection, schema)
        self._transaction = connection.transaction()

    async def execute(self, statement: str) -> None:
        await self.connection.execute(statement)

    async def begin(self) -> None:
        await self._transaction.start()

    async def commit(self) -> None:
        await self._transaction.commit()

    async def rollback(self) -> None:
        await self._transaction.rollback()


class OfAwaitedSQLAlchemy(OwnAwaited):
    async def execute(self, statement: str) -> None:
        await self.connection.execute(text(statement))

    async def commit(self) -> None:
        await self.connection.commit()

    async def rollback(self) -> None:
        await self.connection.rollback()


Opened = AbstractAsyncContextManager[Own]


@asynccontextmanager
async def psycopg_(url: str, schema: str) -> AsyncIterator[Own]:
    with psycopg.connect(url) as connection:
        yield OfPsycopg(connection, schema)


@asynccontextmanager
async def psycopg_awaited(url: str, schema: str) -> AsyncIterator[Own]:
    async with await psycopg.AsyncConnection.connect(url) as connection:
        yield OfAwaitedPsycopg(connection, schema)


@asynccontextmanager
async def psycopg2_(url: str, schema: str) -> AsyncIterator[Own]:
    connection = psycopg2.connect(url)
    try:
        yield OfPsycopg2(connection, schema)
    finally:
        connection.close()


@asynccontextmanager
async def asyncpg_(url: str, schema: str) -> AsyncIterator[Own]:
    connection = await asyncpg.connect(**parts_of(url))
    own = OfAsyncpg(connection, schema)
    await own.begin()
    try:
        yield own
    finally:
        await connection.close()


@asynccontextmanager
async def asyncpg_pool(url: str, schema: str) -> AsyncIterator[Own]:
    async with asyncpg.create_pool(min_size=1, max_size=1, **parts_of(url)) as pool, pool.acquire() as connection:
        own = OfAsyncpg(connection, schema)
        await own.begin()
        yield own


@asynccontextmanager
async def django(url: str, schema: str) -> AsyncIterator[Own]:
    connection = django_connection(url)
    try:
        yield OfDjango(connection, schema)
    finally:
        connection.close()


def session_over(driver: str) -> Callable[[str, str], Opened]:
    @asynccontextmanager
    async def opened(url: str, schema: str) -> AsyncIterator[Own]:
        with engine_of(driver, url) as engine, orm.Session(engine) as session:
            yield OfSQLAlchemy(session, schema)

    return opened


@asynccontextmanager
async def scoped_session(url: str, schema: str) -> AsyncIterator[Own]:
    with engine_of("psycopg", url) as engine:
        session = orm.scoped_session(orm.sessionmaker(engine))
        try:
            yield OfSQLAlchemy(session, schema)
        finally:
            session.remove()


@asynccontextmanager
async def sqlalchemy_connection(url: str, schema: str) -> AsyncIterator[Own]:
    with engine_of("psycopg", url) as engine, engine.connect() as connection:
        yield OfSQLAlchemy(connection, schema)


def awaited_session_over(driver: str) -> Callable[[str, str], Opened]:
    @asynccontextmanager
    async def opened(url: str, schema: str) -> AsyncIterator[Own]:
        async with async_engine_of(driver, url) as engine, aio.AsyncSession(engine) as session:
            yield OfAwaitedSQLAlchemy(session, schema)

    return opened


@asynccontextmanager
async def awaited_scoped_session(url: str, schema: str) -> AsyncIterator[Own]:
    async with async_engine_of("asyncpg", url) as engine:
        # As in typical use: a separate session for each task.
        session = aio.async_scoped_session(aio.async_sessionmaker(engine), scopefunc=asyncio.current_task)
        try:
            yield OfAwaitedSQLAlchemy(session, schema)
        finally:
            await session.remove()


@asynccontextmanager
async def awaited_sqlalchemy_connection(url: str, schema: str) -> AsyncIterator[Own]:
    async with async_engine_of("asyncpg", url) as engine, engine.connect() as connection:
        yield OfAwaitedSQLAlchemy(connection, schema)


@dataclass(frozen=True, slots=True)
class Kind:
    """A kind of connection: how to open it, whether it is async, and whether it has a commit hook."""

    open: Callable[[str, str], Opened]
    is_async: bool = False
    tells_of_commits: bool = False

    def run(self, story: Coroutine[Any, Any, None]) -> None:
        """Run a coroutine that uses this kind of connection: on an event loop, or without one for sync drivers."""
        if self.is_async:
            asyncio.run(story)
            return
        with suppress(StopIteration):
            story.send(None)
            raise AssertionError("nothing here has to be awaited")


KINDS: Mapping[str, Kind] = {
    "psycopg": Kind(psycopg_),
    "psycopg2": Kind(psycopg2_),
    "django": Kind(django, tells_of_commits=True),
    "session-psycopg": Kind(session_over("psycopg"), tells_of_commits=True),
    "session-psycopg2": Kind(session_over("psycopg2"), tells_of_commits=True),
    "scoped-session": Kind(scoped_session, tells_of_commits=True),
    "sqlalchemy-connection": Kind(sqlalchemy_connection),
    "psycopg-async": Kind(psycopg_awaited, is_async=True),
    "asyncpg": Kind(asyncpg_, is_async=True),
    "asyncpg-pool": Kind(asyncpg_pool, is_async=True),
    "async-session-asyncpg": Kind(awaited_session_over("asyncpg"), is_async=True, tells_of_commits=True),
    "async-session-psycopg": Kind(awaited_session_over("psycopg"), is_async=True, tells_of_commits=True),
    "async-scoped-session": Kind(awaited_scoped_session, is_async=True, tells_of_commits=True),
    "async-sqlalchemy-connection": Kind(awaited_sqlalchemy_connection, is_async=True),
}


def parts_of(url: str) -> dict[str, Any]:
    """Return the parts of a URL as keyword arguments, for drivers without libpq."""
    given = conninfo_to_dict(url)
    names = {"host": "host", "port": "port", "user": "user", "password": "password", "dbname": "database"}
    return {names[name]: value for name, value in given.items() if name in names}


def sqlalchemy_url(driver: str, url: str) -> URL:
    parts = parts_of(url)
    query = {"host": parts["host"]} if "host" in parts else {}
    query |= {"port": str(parts["port"])} if "port" in parts and driver != "asyncpg" else {}
    return URL.create(
        f"postgresql+{driver}", parts.get("user"), parts.get("password"), database=parts.get("database"), query=query
    )


@contextmanager
def engine_of(driver: str, url: str) -> Iterator[sqlalchemy.Engine]:
    engine = sqlalchemy.create_engine(sqlalchemy_url(driver, url))
    try:
        yield engine
    finally:
        engine.dispose()


@asynccontextmanager
async def async_engine_of(driver: str, url: str) -> AsyncIterator[aio.AsyncEngine]:
    port = parts_of(url).get("port")
    own = {"port": int(port)} if port is not None and driver == "asyncpg" else {}
    engine = aio.create_async_engine(sqlalchemy_url(driver, url), connect_args=own)
    try:
        yield engine
    finally:
        await engine.dispose()


def django_connection(url: str) -> Any:
    """Return the Django connection of this thread to a server."""
    parts = parts_of(url)
    if not settings.configured:
        settings.configure(USE_TZ=True, DATABASES={"default": {"ENGINE": "django.db.backends.postgresql"}})
        setup()
    database = {
        "ENGINE": "django.db.backends.postgresql",
        "HOST": parts.get("host", ""),
        "PORT": parts.get("port", ""),
        "USER": parts.get("user", ""),
        "PASSWORD": parts.get("password", ""),
        "NAME": parts.get("database", ""),
    }
    alias = f"tests {parts.get('host')} {parts.get('port')} {parts.get('user')} {parts.get('database')}"
    connections.settings[alias] = {**connections.settings["default"], **database}
    return connections[alias]
