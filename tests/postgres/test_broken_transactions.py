"""Hazards for `claim.transaction()`: rolled back completions, late use of the connection, forks, stops."""

import asyncio
import subprocess
import sys
from collections.abc import Iterator
from uuid import uuid4

import psycopg
import pytest
import sqlalchemy
from sqlalchemy import orm

import tenure
from tests.connections.databases import of_database
from tests.connections.drivers import engine_of
from tests.postgres.proxy import Proxy
from tests.postgres.somebody import wait_for_a_waiter
from tests.postgres.stores import Place
from tests.servers.postgres import Server, with_schema
from tests.tiers import only_in_all

WAITING = "select count(*) from pg_stat_activity where wait_event = 'advisory' and query = 'COMMIT'"


class Base(orm.DeclarativeBase):
    pass


class Missing(Base):
    __tablename__ = "no_such_table"
    id: orm.Mapped[int] = orm.mapped_column(primary_key=True)


@pytest.fixture
def jobs(place: Place) -> Iterator[tenure.Jobs]:
    with tenure.Jobs(place.url) as made:
        made.enqueue("work", id="job")
        place.execute("create table S.effects (job text)")
        yield made


@pytest.fixture
def claim(jobs: tenure.Jobs) -> tenure.Claim:
    (claim,) = jobs.claim()
    return claim


def effects(place: Place) -> list[str]:
    return [job for (job,) in place.execute("select job from S.effects")]


def job_of(jobs: tenure.Jobs, id: str = "job") -> tenure.Job:
    job = jobs.get(id)
    assert job is not None
    return job


def test_an_effect_is_not_committed_without_the_completion_that_a_savepoint_undid(
    jobs: tenure.Jobs, claim: tenure.Claim, place: Place
) -> None:
    with claim.transaction() as connection:
        connection.execute(f"insert into {place.schema}.effects values ('job')")
        with pytest.raises(ZeroDivisionError), connection.transaction():
            claim.complete(connection=connection)
            raise ZeroDivisionError

    assert effects(place) == ["job"]
    assert job_of(jobs).state == "completed"


def test_an_effect_is_not_committed_for_a_job_that_was_given_back_meanwhile(
    jobs: tenure.Jobs, claim: tenure.Claim, place: Place
) -> None:
    with pytest.raises(tenure.ClaimLost), claim.transaction() as connection:
        connection.execute(f"insert into {place.schema}.effects values ('job')")
        claim.release()

    assert effects(place) == []
    assert job_of(jobs).state == "queued"


def test_what_is_kept_of_an_ended_transaction_cannot_reach_the_next(jobs: tenure.Jobs, place: Place) -> None:
    jobs.enqueue("work")
    first, second = jobs.claim(limit=2)
    with first.transaction() as ended:
        cursor = ended.cursor()

    with second.transaction() as connection:
        with pytest.raises(tenure.ConfigurationError, match="one transaction, which has ended"):
            cursor.execute(f"insert into {place.schema}.effects values ('late')")
        ended.close()
        assert connection.execute("select 1").fetchone() == (1,)

    assert effects(place) == []
    assert job_of(jobs, second.id).state == "completed"


def test_what_is_kept_of_an_awaited_transaction_cannot_reach_the_next(jobs: tenure.Jobs, place: Place) -> None:
    jobs.enqueue("work")
    first, second = jobs.claim(limit=2)

    async def story() -> None:
        async with first.aio.transaction() as ended:
            cursor = ended.cursor()
        async with second.aio.transaction() as connection:
            with pytest.raises(tenure.ConfigurationError, match="one transaction, which has ended"):
                await cursor.execute(f"insert into {place.schema}.effects values ('late')")
            await ended.close()
            assert await (await connection.execute("select 1")).fetchone() == (1,)

    asyncio.run(story())

    assert effects(place) == []
    assert job_of(jobs, second.id).state == "completed"


def test_a_block_may_have_dates_shown_as_it_likes(jobs: tenure.Jobs, claim: tenure.Claim) -> None:
    with claim.transaction() as connection:
        connection.execute("set datestyle = 'German'")
        connection.execute("set timezone = 'Asia/Tokyo'")

    assert job_of(jobs).state == "completed"


def test_a_completion_that_was_rolled_back_and_then_lost_is_told(
    jobs: tenure.Jobs, claim: tenure.Claim, place: Place
) -> None:
    with pytest.raises(tenure.ClaimLost), claim:
        with psycopg.connect(place.server) as connection:
            claim.complete(connection=connection)
            connection.rollback()
        jobs.reap(worker=claim.job.worker)

    assert not claim.is_settled
    assert job_of(jobs).state == "queued"


def test_a_child_that_leaves_the_transaction_of_its_parent_does_not_end_it(place: Place) -> None:
    program = [sys.executable, "-m", "tests.postgres.forked_transaction", place.url]

    ended = subprocess.run(program, capture_output=True, text=True, timeout=120, check=True)

    assert ended.stdout == "3 (7,) completed\n"


def test_a_loop_that_ends_during_the_commit_gives_the_job_back(
    jobs: tenure.Jobs, claim: tenure.Claim, place: Place
) -> None:
    place.execute(
        "create function S.waiting() returns trigger language plpgsql as "
        "'begin perform pg_advisory_xact_lock(4711); return null; end'"
    )
    place.execute(
        "create constraint trigger waiting after insert on S.effects deferrable initially deferred "
        "for each row execute function S.waiting()"
    )

    async def work() -> None:
        async with claim.aio.transaction() as connection:
            await connection.execute(f"insert into {place.schema}.effects values ('job')")

    async def main() -> None:
        working = asyncio.create_task(work())
        while place.execute(WAITING) == [(0,)]:  # noqa: ASYNC110 - nobody is told when the server waits
            await asyncio.sleep(0)
        assert not working.done()

    with psycopg.connect(place.server) as other:
        other.execute("select pg_advisory_xact_lock(4711)")
        asyncio.run(main())

    job = job_of(jobs)
    assert (job.state, job.attempts, job.errors) == ("queued", 0, [])
    assert effects(place) == []


def test_a_task_is_given_up_on_from_within_its_transaction(jobs: tenure.Jobs) -> None:
    @jobs.task(give_up_on=ZeroDivisionError)
    def work() -> None:
        with tenure.current().transaction():
            raise ZeroDivisionError

    jobs.work(drain=True)

    assert job_of(jobs).state == "failed"


def test_a_task_whose_own_transaction_is_rolled_back_is_given_up_on(jobs: tenure.Jobs, place: Place) -> None:
    @jobs.task(give_up_on=ZeroDivisionError)
    def work() -> None:
        with psycopg.connect(place.server) as connection:
            tenure.current().complete(connection=connection)
            raise ZeroDivisionError

    jobs.work(drain=True)

    assert job_of(jobs).state == "failed"


def test_a_time_limit_that_ends_a_transaction_is_a_failure(jobs: tenure.Jobs) -> None:
    @jobs.task(timeout=0.05)
    async def work() -> None:
        async with tenure.current().aio.transaction():
            await asyncio.Event().wait()

    jobs.work(drain=True)

    job = job_of(jobs)
    assert (job.state, job.attempts) == ("queued", 1)
    assert "exceeded its time limit" in job.errors[0]


def test_a_time_limit_that_ends_a_transaction_of_a_thread_is_a_failure(jobs: tenure.Jobs) -> None:
    runs = []

    @jobs.task(timeout=0.5)
    def work() -> None:
        runs.append(tenure.current().attempt)
        with tenure.current().transaction() as connection:
            while True:
                connection.execute("select 1")

    jobs.work(drain=True)

    job = job_of(jobs)
    assert (job.state, job.attempts, runs) == ("queued", 1, [1])
    assert "exceeded its time limit" in job.errors[0]


def test_a_cancel_ends_a_call_that_waits_for_somebody_elses_transaction(jobs: tenure.Jobs, place: Place) -> None:
    (claim,) = jobs.claim()

    async def story() -> None:
        async with await psycopg.AsyncConnection.connect(place.server) as connection:
            # Ends a failing test: without this, it would wait for ever.
            await connection.execute("set lock_timeout = '60s'")
            completing = asyncio.create_task(claim.aio.complete(connection=connection))
            await asyncio.to_thread(wait_for_a_waiter, place)
            completing.cancel()
            with pytest.raises(asyncio.CancelledError) as told:
                await completing
            assert isinstance(told.value.__cause__, asyncio.CancelledError)
            await connection.rollback()

    with place.begun(f"select from {place.schema}.jobs for update"):
        asyncio.run(story())

    claim.complete()


def test_a_claim_that_is_completed_in_an_open_transaction_is_not_completed_in_another(
    jobs: tenure.Jobs, place: Place
) -> None:
    (claim,) = jobs.claim()

    with psycopg.connect(place.server) as one, psycopg.connect(place.server) as other:
        claim.complete(connection=one)
        with pytest.raises(tenure.ClaimLost, match="in another transaction, which is still open"):
            claim.complete(connection=other)
        one.rollback()
        claim.complete("by the other", connection=other)

    job = jobs.get(claim.id)
    assert job is not None
    assert job.result == "by the other"


@pytest.mark.parametrize("begins_another", [True, False])
def test_an_error_after_a_rollback_is_recorded_whatever_the_connection_does_then(
    jobs: tenure.Jobs, place: Place, *, begins_another: bool
) -> None:
    (claim,) = jobs.claim()

    with psycopg.connect(place.server) as connection, pytest.raises(ZeroDivisionError), claim:
        claim.complete(connection=connection)
        connection.rollback()
        if begins_another:
            connection.execute("select 1")
        raise ZeroDivisionError

    job = jobs.get(claim.id)
    assert job is not None
    assert job.state == "queued"
    assert "ZeroDivisionError" in job.errors[0]


def test_a_task_that_rolls_back_quietly_is_not_run_for_ever(place: Place) -> None:
    with tenure.Jobs(place.url, backoff=tenure.Backoff(first=0)) as jobs:

        @jobs.task(max_attempts=3)
        def charge() -> None:
            with psycopg.connect(place.server) as connection:
                tenure.current().complete(connection=connection)
                connection.rollback()

        id = charge.enqueue()
        jobs.work(drain=True)

        job = jobs.get(id)
        assert job is not None
        assert (job.state, job.attempts) == ("failed", 3)
        assert "was rolled back" in job.errors[-1]


def test_a_copy_of_the_database_is_another_one(place: Place) -> None:
    name = f"copy_{uuid4().hex}"
    with tenure.Jobs(place.url) as jobs:
        jobs.migrate()
        place.execute(f"create database {name}")
        try:
            dump_into_a_copy(place, name)
            with (
                psycopg.connect(of_database(place.server, name)) as connection,
                pytest.raises(tenure.ConfigurationError, match="another store"),
            ):
                jobs.enqueue("send", connection=connection)
        finally:
            place.execute(f"drop database {name} with (force)")


def dump_into_a_copy(place: Place, name: str) -> None:
    """Create a store with the same identity in another database."""
    with tenure.Jobs(with_schema(of_database(place.server, name), place.schema)) as copy:
        copy.migrate()
    ((id,),) = place.execute("select id from S.store")
    with psycopg.connect(of_database(place.server, name)) as connection:
        connection.execute(f"update {place.schema}.store set id = %s".encode(), [id])


def test_an_error_of_what_a_session_has_pending_is_its_own(jobs: tenure.Jobs, place: Place) -> None:
    with engine_of("psycopg", place.server) as engine, orm.Session(engine) as session:
        session.add(Missing(id=1))
        with pytest.raises(sqlalchemy.exc.ProgrammingError, match="no_such_table"):
            jobs.enqueue("send", connection=session)
        session.rollback()


def test_of_what_was_rolled_back_and_lost_since_nothing_more_is_sent(jobs: tenure.Jobs, place: Place) -> None:
    with jobs.claim() as claims, psycopg.connect(place.server) as connection:
        (claim,) = claims
        claim.complete(connection=connection)
        connection.rollback()
        jobs.reap(worker=claim.job.worker)

    assert claim.is_lost
    assert job_of(jobs).state == "queued"
    assert [count for count in jobs.counts() if count.event is tenure.Event.REFUSED] == []


@only_in_all
def test_the_callers_error_goes_on_if_the_store_cannot_be_asked_about_its_transaction(
    postgres: Server, place: Place
) -> None:
    """Slow: a server that is away is waited for."""
    with (
        Proxy(postgres) as proxy,
        tenure.Jobs(proxy.url_of(place.schema) + "&timeout=3") as jobs,
        psycopg.connect(place.server) as own,
    ):
        jobs.enqueue("work")
        (claim,) = jobs.claim()
        # From here on only the caller's connection is used.
        jobs.enqueue("next", connection=own)
        own.rollback()

        with proxy.refusing(), pytest.raises(ZeroDivisionError) as told, claim:
            proxy.cut_all(reset=True)
            claim.complete(connection=own)
            raise ZeroDivisionError

        assert "could not check whether your transaction" in told.value.__notes__[0]
