"""Transactions on async connections: those of `claim.aio.transaction()`, and the caller's own."""

import asyncio
from collections.abc import Iterator

import psycopg
import pytest

import tenure
from tests.postgres.stores import Place
from tests.servers.postgres import Server
from tests.servers.servers import Servers
from tests.stores import transactions
from tests.stores.transactions import PostgresDatabase, job_of, postgres_database, state
from tests.worker.looking import until

jobs, claim = transactions.jobs, transactions.claim

WAITING = "select count(*) from pg_stat_activity where wait_event_type = 'Lock' and query like '%%' || %s || '%%'"


@pytest.fixture
def database(postgres: Server, servers: Servers) -> Iterator[PostgresDatabase]:
    with postgres_database(postgres, servers.schemas) as made:
        yield made


def test_an_awaited_transaction_holds_the_effect_the_completion_and_new_jobs(
    jobs: tenure.Jobs, claim: tenure.Claim, database: PostgresDatabase
) -> None:
    async def story() -> None:
        async with claim.aio.transaction() as connection:
            assert isinstance(connection, psycopg.AsyncConnection)
            await database.write(connection, claim.id)
            await jobs.aio.enqueue("next", id="next", connection=connection)
            claim.result = {"written": 1}
            assert state(jobs, "next") is None

    asyncio.run(story())

    job = job_of(jobs)
    assert (job.state, job.result) == ("completed", {"written": 1})
    assert database.effects() == ["job"]
    assert state(jobs, "next") == "queued"


@pytest.mark.parametrize("error", [ZeroDivisionError(), asyncio.CancelledError()])
def test_what_leaves_an_awaited_transaction_undoes_it(
    jobs: tenure.Jobs, claim: tenure.Claim, database: PostgresDatabase, error: BaseException
) -> None:
    async def story() -> None:
        async with claim.aio.transaction() as connection:
            await database.write(connection, claim.id)
            raise error

    with pytest.raises(type(error)):
        asyncio.run(story())

    assert database.effects() == []
    assert state(jobs) == "queued"


def test_an_awaited_transaction_cannot_be_ended_from_within(claim: tenure.Claim, database: PostgresDatabase) -> None:
    async def story() -> None:
        async with claim.aio.transaction() as connection:
            await database.write(connection, claim.id)
            for ending in (connection.commit, connection.rollback, connection.close):
                with pytest.raises(tenure.ConfigurationError, match="commits when its block ends"):
                    await ending()
            with pytest.raises(tenure.ConfigurationError, match="do not use `with connection`"):
                async with connection:
                    pass
            with pytest.raises(tenure.ConfigurationError, match="remove 'commit'"):
                await connection.execute("commit")
            async with connection.transaction():
                await database.write(connection, "in a savepoint")

    asyncio.run(story())

    assert database.effects() == ["in a savepoint", "job"]


def test_an_awaited_holder_that_was_fenced_out_writes_nothing(
    jobs: tenure.Jobs, claim: tenure.Claim, database: PostgresDatabase
) -> None:
    async def story() -> None:
        with pytest.raises(tenure.ClaimLost):
            async with claim.aio.transaction() as connection:
                await database.write(connection, claim.id)
                await jobs.aio.reap(worker=claim.job.worker)

    asyncio.run(story())

    assert database.effects() == []
    assert state(jobs) == "queued"


def test_an_async_task_completes_in_a_session_of_its_own(jobs: tenure.Jobs, database: PostgresDatabase) -> None:
    @jobs.task
    async def work() -> None:
        run = tenure.current()
        async with await psycopg.AsyncConnection.connect(database.place.server) as connection:
            await database.write(connection, run.id)
            await run.aio.complete({"order": 7}, connection=connection)

    jobs.work(drain=True)

    assert job_of(jobs).result == {"order": 7}
    assert database.effects() == ["job"]


def test_calls_that_wait_for_a_transaction_do_not_keep_it_from_ending(
    jobs: tenure.Jobs, database: PostgresDatabase
) -> None:
    """However many calls wait for the key, the transaction that holds it finds a thread for its next call."""

    async def enqueue(*, key: str) -> str:
        async with await psycopg.AsyncConnection.connect(database.place.server) as connection:
            # Ends a failing test: without this, it would wait for ever.
            await connection.execute("set lock_timeout = '30s'")
            return await jobs.aio.enqueue("send", key=key, connection=connection)

    async def story() -> None:
        async with await psycopg.AsyncConnection.connect(database.place.server) as connection:
            first = await jobs.aio.enqueue("send", key="one", connection=connection)
            others = [asyncio.create_task(enqueue(key="one")) for _ in range(20)]
            await asyncio.to_thread(until, lambda: waiting(database.place) == 20)
            await jobs.aio.enqueue("send", connection=connection)
            await connection.commit()
        assert set(await asyncio.gather(*others)) == {first}

    asyncio.run(story())


def waiting(place: Place) -> int:
    """Return the number of enqueuing calls that wait for a lock."""
    ((number,),) = place.execute(WAITING, f"{place.schema}%enqueue_many_v1")
    return int(number)
