"""A connection that cannot be joined raises a clear error, and nothing is stored."""

import asyncio
import sqlite3
from collections.abc import Iterator
from contextlib import contextmanager
from uuid import uuid4

import asyncpg
import psycopg
import psycopg2
import pytest
import sqlalchemy
from sqlalchemy import orm
from sqlalchemy.ext import asyncio as aio

import tenure
from tests.connections.conftest import Home
from tests.connections.databases import of_database
from tests.connections.drivers import async_engine_of, django_connection, engine_of, parts_of
from tests.postgres.stores import Place
from tests.servers.postgres import with_schema


@pytest.fixture
def nothing_stored(jobs: tenure.Jobs) -> Iterator[None]:
    before = [job.id for job in jobs.find()]
    yield
    assert [job.id for job in jobs.find()] == before


@pytest.fixture(scope="module")
def elsewhere(place: Place) -> Iterator[str]:
    """The URL of another database on the same server, with a store of the same name."""
    name = f"other_{uuid4().hex}"
    place.execute(f"create database {name}")
    url = of_database(place.server, name)
    try:
        with tenure.Jobs(with_schema(url, place.schema)) as jobs:
            jobs.migrate()
        yield url
    finally:
        place.execute(f"drop database {name} with (force)")


@pytest.mark.usefixtures("nothing_stored")
def test_a_connection_to_another_store_of_the_same_name_is_refused(home: Home, elsewhere: str) -> None:
    async def story() -> None:
        async with home.kind.open(elsewhere, home.place.schema) as own:
            with pytest.raises(tenure.ConfigurationError, match="leads to another store"):
                await own.enqueue(home.jobs, "send")
            await own.commit()

    home.kind.run(story())

    with psycopg.connect(elsewhere) as connection:
        assert connection.execute(f"select count(*) from {home.place.schema}.jobs".encode()).fetchone() == (0,)


@pytest.mark.usefixtures("nothing_stored")
def test_a_connection_to_a_database_without_a_store_is_refused(home: Home) -> None:
    elsewhere = of_database(home.place.server, "template1")

    async def story() -> None:
        async with home.kind.open(elsewhere, home.place.schema) as own:
            with pytest.raises(tenure.ConfigurationError, match="without a store in schema"):
                await own.enqueue(home.jobs, "send")
            await own.rollback()

    home.kind.run(story())


@pytest.mark.usefixtures("nothing_stored")
def test_an_async_connection_in_a_call_that_does_not_await_names_the_twin(home: Home) -> None:
    if not home.kind.is_async:
        return
    claim = home.claim(uuid4().hex)

    async def story() -> None:
        async with home.opened() as own:
            with pytest.raises(TypeError, match=r"jobs\.aio\.enqueue"):
                home.jobs.enqueue("send", connection=own.connection)
            with pytest.raises(TypeError, match=r"claim\.aio\.complete"):
                claim.complete(connection=own.connection)
            await own.rollback()

    home.kind.run(story())

    claim.complete()
    home.jobs.delete(claim.id)


@pytest.mark.parametrize("connection", ["postgresql://", object(), sqlite3.connect(":memory:")])
def test_what_is_no_connection_is_refused(jobs: tenure.Jobs, connection: object) -> None:
    with pytest.raises(tenure.ConfigurationError, match="connection must be of psycopg"):
        jobs.enqueue("send", connection=connection)


@contextmanager
def told_to(remedy: str) -> Iterator[None]:
    with pytest.raises(tenure.ConfigurationError, match=f"has no open transaction; .*{remedy}"):
        yield


@pytest.mark.usefixtures("nothing_stored")
def test_a_connection_that_commits_each_statement_is_refused(place: Place, jobs: tenure.Jobs) -> None:
    with psycopg.connect(place.server, autocommit=True) as connection, told_to("with connection.transaction"):
        jobs.enqueue("send", connection=connection)
    old = psycopg2.connect(place.server)
    old.autocommit = True
    with told_to("autocommit to False"):
        jobs.enqueue("send", connection=old)
    old.close()
    for driver in ("psycopg", "psycopg2"):
        with (
            engine_of(driver, place.server) as engine,
            orm.Session(engine.execution_options(isolation_level="AUTOCOMMIT")) as session,
            told_to("AUTOCOMMIT"),
        ):
            jobs.enqueue("send", connection=session)
    djangos = django_connection(place.server)
    with told_to("transaction.atomic"):
        jobs.enqueue("send", connection=djangos)
    djangos.close()


@pytest.mark.usefixtures("nothing_stored")
def test_an_async_connection_that_commits_each_statement_is_refused(place: Place, jobs: tenure.Jobs) -> None:
    async def story() -> None:
        async with await psycopg.AsyncConnection.connect(place.server, autocommit=True) as connection:
            with told_to("with connection.transaction"):
                await jobs.aio.enqueue("send", connection=connection)
        plain = await asyncpg.connect(**parts_of(place.server))
        with told_to("async with connection.transaction"):
            await jobs.aio.enqueue("send", connection=plain)
        await plain.close()
        for driver in ("psycopg", "asyncpg"):
            async with (
                async_engine_of(driver, place.server) as engine,
                aio.AsyncSession(engine.execution_options(isolation_level="AUTOCOMMIT")) as session,
            ):
                with told_to("AUTOCOMMIT"):
                    await jobs.aio.enqueue("send", connection=session)

    asyncio.run(story())


@pytest.mark.usefixtures("nothing_stored")
def test_a_transaction_within_autocommit_is_joined(place: Place, jobs: tenure.Jobs) -> None:
    with psycopg.connect(place.server, autocommit=True) as connection, connection.transaction(force_rollback=True):
        id = jobs.enqueue("send", connection=connection)

        assert jobs.get(id) is None


@pytest.mark.usefixtures("nothing_stored")
def test_a_session_to_another_kind_of_database_is_refused(jobs: tenure.Jobs) -> None:
    engine = sqlalchemy.create_engine("sqlite://")

    with orm.Session(engine) as session, pytest.raises(tenure.ConfigurationError, match="connection is to 'sqlite'"):
        jobs.enqueue("send", connection=session)

    engine.dispose()


def test_an_error_of_the_server_goes_on_as_the_driver_raised_it(place: Place, jobs: tenure.Jobs) -> None:
    """The caller can recognize the error and repeat the transaction."""
    with psycopg.connect(place.server) as connection:
        with pytest.raises(psycopg.errors.DivisionByZero):
            connection.execute("select 1 / 0")

        with pytest.raises(psycopg.errors.InFailedSqlTransaction):
            jobs.enqueue("send", connection=connection)
        connection.rollback()


def test_in_a_repeatable_read_a_job_that_changed_meanwhile_is_a_failure_to_serialize(
    place: Place, jobs: tenure.Jobs
) -> None:
    jobs.enqueue("send", id=(id := uuid4().hex))
    (claim,) = jobs.claim(types="send", lease=60)

    with psycopg.connect(place.server) as connection:
        connection.isolation_level = psycopg.IsolationLevel.REPEATABLE_READ
        connection.execute("select 1")
        claim.extend(120)
        with pytest.raises(psycopg.errors.SerializationFailure):
            claim.complete(connection=connection)
        connection.rollback()

    claim.complete()
    assert jobs.delete(id)


def test_what_the_store_refuses_is_told_in_one_sentence_without_what_was_passed(home: Home) -> None:
    async def story() -> None:
        async with home.opened() as own:
            with pytest.raises(tenure.ConfigurationError) as told:
                await own.enqueue(home.jobs, "send", payload={"secret": "hunter2", "number": 10**400})
            assert str(told.value) == ("the store rejected the request: payload has a number too large for a double")
            await own.rollback()

    home.kind.run(story())
