"""The database that jobs and the caller's own data share, for each store that has transactions.

A test module takes the fixtures by name: `database, jobs, claim = transactions.database, …`. A module for one store
defines its own fixture `database` instead.
"""

import sqlite3
from abc import ABC, abstractmethod
from collections.abc import Iterator
from contextlib import AbstractContextManager, closing, contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, ClassVar

import psycopg
import pytest

import tenure
from tests.postgres.stores import Place
from tests.servers.postgres import Server
from tests.servers.schemas import Schemas
from tests.servers.servers import Servers, shared_names

SQLITE = "sqlite"
PATIENCE = 60
"""Seconds until a lock that is never released fails the test."""


class Database(ABC):
    """A database with a store, and with the caller's table for the effects of jobs."""

    url: str
    """Where the store is, for `tenure.Jobs`."""
    table: str
    """The name of the caller's table, as a statement names it."""
    placeholder: ClassVar[str]
    duplicate_row: ClassVar[type[Exception]]
    """What the driver raises for an effect that is written twice."""
    unknown_table: ClassVar[type[Exception]]

    @abstractmethod
    def connect(self) -> AbstractContextManager[Any]:
        """Open a caller's connection; commit when the block ends, roll back on an exception, and close it."""

    def create_table(self) -> None:
        with self.connect() as connection:
            connection.execute(f"create table {self.table} (job text primary key, fence bigint)")

    def write(self, connection: Any, job: str, fence: int = 0) -> Any:
        """Write the effect of a job; return the driver's result, an awaitable for an async driver."""
        values = f"{self.placeholder}, {self.placeholder}"
        return connection.execute(f"insert into {self.table} values ({values})", (job, fence))  # noqa: S608

    def effects(self) -> list[str]:
        """Return the jobs whose effects are committed."""
        with self.connect() as connection:
            return [job for (job,) in connection.execute(f"select job from {self.table} order by job")]  # noqa: S608


class SQLiteDatabase(Database):
    placeholder = "?"
    duplicate_row = sqlite3.IntegrityError
    unknown_table = sqlite3.OperationalError

    def __init__(self, path: Path) -> None:
        self.path = path
        self.url = f"sqlite:///{path}?timeout={PATIENCE}"
        self.table = "effects"

    @contextmanager
    def connect(self) -> Iterator[sqlite3.Connection]:
        with closing(sqlite3.connect(self.path, timeout=PATIENCE)) as connection, connection:
            yield connection


class PostgresDatabase(Database):
    placeholder = "%s"
    duplicate_row = psycopg.errors.UniqueViolation
    unknown_table = psycopg.errors.UndefinedTable

    def __init__(self, server: Server, schema: str) -> None:
        self.place = Place(server.url, schema)
        self.url = self.place.url
        self.table = f"{schema}.effects"

    def connect(self) -> AbstractContextManager[psycopg.Connection]:
        return psycopg.connect(self.place.server)


@contextmanager
def sqlite_database() -> Iterator[SQLiteDatabase]:
    with TemporaryDirectory(prefix="tenure-sqlite-") as folder:
        yield SQLiteDatabase(Path(folder) / "tenure.db")


@contextmanager
def postgres_database(server: Server, schemas: Schemas) -> Iterator[PostgresDatabase]:
    database = PostgresDatabase(server, schemas.take(server))
    try:
        yield database
    finally:
        # Other tests use the schema next, and expect the tables of the store alone.
        database.place.execute(f"set lock_timeout = '{PATIENCE}s'; drop table if exists {database.table}")
        schemas.give_back(server, database.place.schema)


@pytest.fixture(params=[SQLITE, *shared_names()])
def database(request: pytest.FixtureRequest, servers: Servers) -> Iterator[Database]:
    if request.param == SQLITE:
        with sqlite_database() as file:
            yield file
    else:
        with postgres_database(servers.shared(request.param), servers.schemas) as schema:
            yield schema


@pytest.fixture
def jobs(database: Database) -> Iterator[tenure.Jobs]:
    """A store with a job to claim, and the caller's table beside it."""
    with tenure.Jobs(database.url) as made:
        made.enqueue("work", id="job")
        database.create_table()
        yield made


@pytest.fixture
def claim(jobs: tenure.Jobs) -> tenure.Claim:
    (claim,) = jobs.claim(lease=60)
    return claim


def job_of(jobs: tenure.Jobs, id: str = "job") -> tenure.Job:
    job = jobs.get(id)
    assert job is not None
    return job


def state(jobs: tenure.Jobs, id: str = "job") -> str | None:
    job = jobs.get(id)
    return None if job is None else job.state
