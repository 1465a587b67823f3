"""`claim.transaction()`: writes of the caller's own, together with the completion and with new jobs; or nothing."""

import asyncio
import threading
import time
from collections.abc import Iterator
from typing import Any

import psycopg
import pytest
from psycopg import sql
from psycopg.rows import dict_row

import tenure
from tenure.backends.postgres import spares
from tests.postgres.proxy import Proxy
from tests.postgres.stores import Place
from tests.postgres.wire import COMMAND_COMPLETE
from tests.proxies.points import before, from_server
from tests.servers.postgres import Server


@pytest.fixture
def jobs(place: Place) -> Iterator[tenure.Jobs]:
    with tenure.Jobs(place.url) as made:
        made.enqueue("work", id="job")
        yield made


@pytest.fixture
def claim(jobs: tenure.Jobs, place: Place) -> tenure.Claim:
    (claim,) = jobs.claim(lease=60)
    place.execute("create table S.receipts (job text, fence bigint)")
    return claim


def receipts(place: Place) -> list[str]:
    return [job for (job,) in place.execute("select job from S.receipts order by job")]


def write(place: Place, connection: Any, claim: tenure.Claim | tenure.AsyncClaim) -> Any:
    return connection.execute(f"insert into {place.schema}.receipts values (%s, %s)", (claim.id, claim.fence))


def state(jobs: tenure.Jobs, id: str = "job") -> str | None:
    job = jobs.get(id)
    return None if job is None else job.state


def test_a_transaction_holds_the_effect_the_completion_and_new_jobs(
    jobs: tenure.Jobs, claim: tenure.Claim, place: Place
) -> None:
    with claim.transaction() as connection:
        write(place, connection, claim)
        jobs.enqueue("next", id="next", connection=connection)
        claim.result = {"written": 1}
        assert (receipts(place), state(jobs), state(jobs, "next")) == ([], "running", None)

    job = jobs.get("job")
    assert job is not None
    assert (job.state, job.result) == ("completed", {"written": 1})
    assert receipts(place) == ["job"]
    assert state(jobs, "next") == "queued"
    assert claim.is_settled


def test_a_stale_holder_is_refused_at_once(jobs: tenure.Jobs, claim: tenure.Claim, place: Place) -> None:
    jobs.reap(worker=claim.job.worker)
    entered = False

    with pytest.raises(tenure.ClaimLost), claim.transaction() as connection:
        entered = True
        write(place, connection, claim)

    assert not entered
    assert claim.is_lost
    assert state(jobs) == "queued"


def test_a_holder_that_was_fenced_out_meanwhile_writes_nothing(
    jobs: tenure.Jobs, claim: tenure.Claim, place: Place
) -> None:
    with pytest.raises(tenure.ClaimLost), claim.transaction() as connection:
        write(place, connection, claim)
        jobs.enqueue("next", id="next", connection=connection)
        jobs.reap(worker=claim.job.worker)
        (after,) = jobs.claim()
        after.complete("by the next one")

    job = jobs.get("job")
    assert job is not None
    assert job.result == "by the next one"
    assert receipts(place) == []
    assert state(jobs, "next") is None


def test_an_exception_undoes_all_of_it_is_recorded_and_goes_on(
    jobs: tenure.Jobs, claim: tenure.Claim, place: Place
) -> None:
    with pytest.raises(ZeroDivisionError), claim.transaction() as connection:
        write(place, connection, claim)
        jobs.enqueue("next", id="next", connection=connection)
        raise ZeroDivisionError

    job = jobs.get("job")
    assert job is not None
    assert job.state == "queued"
    assert "ZeroDivisionError" in job.errors[0]
    assert receipts(place) == []
    assert state(jobs, "next") is None


def test_an_answer_undoes_it_and_ends_in_the_block(jobs: tenure.Jobs, claim: tenure.Claim, place: Place) -> None:
    with claim.transaction() as connection:
        write(place, connection, claim)
        raise tenure.Fail("not today")

    assert state(jobs) == "failed"
    assert receipts(place) == []


def test_an_interruption_undoes_it_and_gives_the_job_back(jobs: tenure.Jobs, claim: tenure.Claim, place: Place) -> None:
    with pytest.raises(KeyboardInterrupt), claim.transaction() as connection:
        write(place, connection, claim)
        raise KeyboardInterrupt

    assert state(jobs) == "queued"
    assert receipts(place) == []


def test_the_callers_own_errors_are_not_changed(jobs: tenure.Jobs, claim: tenure.Claim, place: Place) -> None:
    with pytest.raises(psycopg.errors.DivisionByZero), claim.transaction() as connection:
        write(place, connection, claim)
        connection.execute("select 1 / 0")

    assert receipts(place) == []
    assert state(jobs) == "queued"


def test_what_only_the_commit_finds_wrong_goes_on_and_nothing_is_completed(
    jobs: tenure.Jobs, claim: tenure.Claim, place: Place
) -> None:
    place.execute("create table S.orders (id int primary key)")
    place.execute("create table S.lines (place int references S.orders deferrable initially deferred)")

    with pytest.raises(psycopg.errors.ForeignKeyViolation), claim.transaction() as connection:
        connection.execute(f"insert into {place.schema}.lines values (1)")

    job = jobs.get("job")
    assert job is not None
    assert job.state == "queued"
    assert "ForeignKeyViolation" in job.errors[0]


def test_an_error_that_the_block_caught_is_not_committed_over(
    jobs: tenure.Jobs, claim: tenure.Claim, place: Place
) -> None:
    with pytest.raises(psycopg.errors.InFailedSqlTransaction), claim.transaction() as connection:
        write(place, connection, claim)
        with pytest.raises(psycopg.errors.DivisionByZero):
            connection.execute("select 1 / 0")

    assert receipts(place) == []
    assert state(jobs) == "queued"


@pytest.mark.parametrize(
    "statement",
    [
        "commit",
        " -- a remark\n COMMIT work",
        "/* so */ end",
        b"rollback",
        "abort",
        "begin",
        "start transaction",
        "prepare transaction 'x'",
        sql.SQL("commit and chain"),
        "rollback work and no chain",
    ],
)
def test_a_transaction_cannot_be_ended_from_within(
    claim: tenure.Claim, place: Place, statement: str | bytes | sql.SQL
) -> None:
    with (
        pytest.raises(tenure.ConfigurationError, match="committed when its block is left"),
        claim.transaction() as connection,
    ):
        write(place, connection, claim)
        connection.execute(statement)

    assert receipts(place) == []


def test_a_commit_that_is_hidden_in_a_text_is_noticed_and_nothing_is_completed(
    jobs: tenure.Jobs, claim: tenure.Claim
) -> None:
    with pytest.raises(tenure.ConfigurationError, match="has ended it before"), claim.transaction() as connection:
        connection.execute("select 1; commit")

    assert state(jobs) == "queued"


def test_the_methods_that_would_end_it_say_what_to_do_instead(claim: tenure.Claim, place: Place) -> None:
    with claim.transaction() as connection:
        write(place, connection, claim)
        with pytest.raises(tenure.ConfigurationError, match="leave the commit to it"):
            connection.commit()
        with pytest.raises(tenure.ConfigurationError, match="raise one to undo it"):
            connection.rollback()
        with pytest.raises(tenure.ConfigurationError, match="leave the connection open"):
            connection.close()
        with pytest.raises(tenure.ConfigurationError, match="leave that out"), connection:
            pass

    assert receipts(place) == ["job"]
    with pytest.raises(tenure.ConfigurationError, match="leave it alone"):
        connection.execute("select 1")


def test_the_next_transaction_finds_nothing_of_the_last(jobs: tenure.Jobs) -> None:
    jobs.enqueue("work")
    first, second = jobs.claim(limit=2)
    with first.transaction() as connection:
        connection.row_factory = dict_row
        connection.execute("set enable_seqscan = off")
        connection.execute("create temporary table mine (number int)")
        connection.execute("listen something")
        connection.execute("prepare one as select 1")
        connection.execute("select pg_advisory_lock(7)")
        used = connection.info.backend_pid

    with second.transaction() as connection:
        assert connection.info.backend_pid == used
        assert connection.execute("show enable_seqscan").fetchone() == ("on",)
        found = connection.execute(
            "select to_regclass('mine'), (select count(*) from pg_listening_channels()), "
            "(select count(*) from pg_prepared_statements), "
            "(select count(*) from pg_locks where locktype = 'advisory' and pid = pg_backend_pid())"
        )
        assert found.fetchone() == (None, 0, 0, 0)


def test_a_connection_that_the_server_has_ended_meanwhile_is_not_used_again(jobs: tenure.Jobs, place: Place) -> None:
    jobs.enqueue("work")
    first, second = jobs.claim(limit=2)
    with first.transaction() as connection:
        used = connection.info.backend_pid
    place.execute("select pg_terminate_backend(%s)", used)

    with second.transaction() as connection:
        connection.execute("select 1")

    assert state(jobs, second.id) == "completed"


def test_a_session_that_nobody_used_for_long_is_not_kept(jobs: tenure.Jobs, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(spares, "LONGEST_IDLE", 0.0)
    jobs.enqueue("work")
    first, second = jobs.claim(limit=2)

    with first.transaction() as connection:
        used = connection.info.backend_pid
    with second.transaction() as connection:
        assert connection.info.backend_pid != used


def test_after_close_no_connection_is_left(place: Place) -> None:
    with tenure.Jobs(f"{place.url}&application_name={place.schema}") as jobs:
        jobs.enqueue("work")
        (claim,) = jobs.claim()
        with claim.transaction() as connection:
            connection.execute("select 1")

    told = "select count(*) from pg_stat_activity where application_name = %s"
    while place.execute(told, place.schema) != [(0,)]:
        pass


def test_savepoints_work_within(jobs: tenure.Jobs, claim: tenure.Claim, place: Place) -> None:
    with claim.transaction() as connection:
        with pytest.raises(ZeroDivisionError), connection.transaction():
            write(place, connection, claim)
            raise ZeroDivisionError
        with connection.transaction():
            write(place, connection, claim)
        connection.execute("savepoint by_hand")
        write(place, connection, claim)
        connection.execute("rollback to savepoint by_hand")

    assert receipts(place) == ["job"]
    assert state(jobs) == "completed"


def test_a_completion_by_hand_within_is_the_one_that_counts(
    jobs: tenure.Jobs, claim: tenure.Claim, place: Place
) -> None:
    with claim.transaction() as connection:
        write(place, connection, claim)
        claim.complete("by hand", connection=connection)

    job = jobs.get("job")
    assert job is not None
    assert (job.state, job.result) == ("completed", "by hand")
    assert receipts(place) == ["job"]


def test_the_callers_statements_run_under_the_settings_of_the_server(claim: tenure.Claim) -> None:
    with claim.transaction() as connection:
        shown = [connection.execute(f"show {name}").fetchone() for name in ("enable_seqscan", "statement_timeout")]
        level = connection.execute("show transaction_isolation").fetchone()

    assert shown == [("on",), ("0",)]
    assert level == ("read committed",)


def test_a_transaction_may_last_for_several_leases(jobs: tenure.Jobs, place: Place) -> None:
    """Nothing of the job is locked before the end, so its lease is extended, and nobody has to wait."""
    place.execute("create table S.receipts (job text, fence bigint)")
    (claim,) = jobs.claim(lease=1)
    ends = threading.Event()

    with claim.transaction() as connection:
        write(place, connection, claim)
        ends.wait(3.2)
        jobs.reap()
        assert jobs.claim() == []
        assert not claim.is_lost

    assert state(jobs) == "completed"
    assert receipts(place) == ["job"]


def test_while_it_is_open_other_claims_and_the_job_itself_can_be_written(
    jobs: tenure.Jobs, claim: tenure.Claim, place: Place
) -> None:
    jobs.enqueue("work", id="other")
    (other,) = jobs.claim()

    with claim.transaction() as connection:
        write(place, connection, claim)
        claim.progress(1, of=2)
        other.extend()
        other.complete()
        jobs.cancel("job")

    assert (state(jobs), state(jobs, "other")) == ("completed", "completed")


def test_a_job_enqueued_within_wakes_who_waits_when_it_is_committed(
    jobs: tenure.Jobs, claim: tenure.Claim, monkeypatch: pytest.MonkeyPatch
) -> None:
    rung: list[object] = []
    monkeypatch.setattr(jobs._backend._wakeups, "ring", rung.append)  # type: ignore[attr-defined]

    with claim.transaction() as connection:
        jobs.enqueue("next", queue="after", connection=connection)
        assert rung == []

    assert rung == [{"after"}]


def test_a_commit_whose_answer_is_lost_is_told_and_not_done_twice(postgres: Server, place: Place) -> None:
    with Proxy(postgres) as proxy, tenure.Jobs(proxy.url_of(place.schema)) as jobs:
        jobs.enqueue("work", id="job")
        (claim,) = jobs.claim()
        place.execute("create table S.receipts (job text, fence bigint)")

        with pytest.raises(tenure.StoreUnavailable, match="may have landed or not"), claim.transaction() as connection:
            write(place, connection, claim)
            # From now on all that is left to be asked for is asked on this connection.
            jobs.enqueue("next", id="next", connection=connection)
            proxy.cut(before(from_server("COMMIT", COMMAND_COMPLETE)))

        assert receipts(place) == ["job"]
        assert state(jobs, "next") == "queued"
        assert state(jobs) == "completed"


def test_an_awaited_transaction_holds_the_effect_the_completion_and_new_jobs(
    jobs: tenure.Jobs, claim: tenure.Claim, place: Place
) -> None:
    async def story() -> None:
        async with claim.aio.transaction() as connection:
            assert isinstance(connection, psycopg.AsyncConnection)
            await write(place, connection, claim)
            await jobs.aio.enqueue("next", id="next", connection=connection)
            claim.result = {"written": 1}
            assert state(jobs, "next") is None

    asyncio.run(story())

    job = jobs.get("job")
    assert job is not None
    assert (job.state, job.result) == ("completed", {"written": 1})
    assert receipts(place) == ["job"]
    assert state(jobs, "next") == "queued"


@pytest.mark.parametrize("error", [ZeroDivisionError(), asyncio.CancelledError()])
def test_what_leaves_an_awaited_transaction_undoes_it(
    jobs: tenure.Jobs, claim: tenure.Claim, place: Place, error: BaseException
) -> None:
    async def story() -> None:
        async with claim.aio.transaction() as connection:
            await write(place, connection, claim)
            raise error

    with pytest.raises(type(error)):
        asyncio.run(story())

    assert receipts(place) == []
    assert state(jobs) == "queued"


def test_an_awaited_transaction_cannot_be_ended_from_within(claim: tenure.Claim, place: Place) -> None:
    async def story() -> None:
        async with claim.aio.transaction() as connection:
            await write(place, connection, claim)
            for ending in (connection.commit, connection.rollback, connection.close):
                with pytest.raises(tenure.ConfigurationError, match="committed when its block is left"):
                    await ending()
            with pytest.raises(tenure.ConfigurationError, match="leave that out"):
                async with connection:
                    pass
            with pytest.raises(tenure.ConfigurationError, match="leave out 'commit'"):
                await connection.execute("commit")
            async with connection.transaction():
                await write(place, connection, claim)

    asyncio.run(story())

    assert receipts(place) == ["job", "job"]


def test_an_awaited_holder_that_was_fenced_out_writes_nothing(
    jobs: tenure.Jobs, claim: tenure.Claim, place: Place
) -> None:
    async def story() -> None:
        with pytest.raises(tenure.ClaimLost):
            async with claim.aio.transaction() as connection:
                await write(place, connection, claim)
                await jobs.aio.reap(worker=claim.job.worker)

    asyncio.run(story())

    assert receipts(place) == []
    assert state(jobs) == "queued"


def test_an_async_task_completes_in_a_session_of_its_own(place: Place) -> None:
    with tenure.Jobs(place.url) as jobs:

        @jobs.task
        async def charge(order: int) -> None:
            async with await psycopg.AsyncConnection.connect(place.server) as connection:
                run = tenure.current()
                await connection.execute(f"insert into {place.schema}.charges values (%s)", (order,))
                await run.aio.complete({"order": order}, connection=connection)

        id = charge.enqueue(7)
        place.execute("create table S.charges (number int)")

        jobs.work(drain=True)

        assert charge.result(id) == {"order": 7}
        assert place.execute("select number from S.charges") == [(7,)]


def test_a_task_whose_own_transaction_is_rolled_back_is_tried_again(place: Place) -> None:
    with tenure.Jobs(place.url, backoff=tenure.Backoff(first=0)) as jobs:

        @jobs.task
        def charge() -> None:
            run = tenure.current()
            with psycopg.connect(place.server) as connection:
                connection.execute(f"insert into {place.schema}.charges values (%s)", (run.attempt,))
                run.complete(connection=connection)
                if run.attempt == 1:
                    raise ZeroDivisionError

        id = charge.enqueue()
        place.execute("create table S.charges (attempt int)")

        jobs.work(drain=True)

        job = jobs.get(id)
        assert job is not None
        assert (job.state, job.attempts) == ("completed", 2)
        assert place.execute("select attempt from S.charges") == [(2,)]


def test_leaving_the_block_of_all_claims_gives_back_what_was_rolled_back(jobs: tenure.Jobs, place: Place) -> None:
    jobs.enqueue_many(tenure.NewJob("work", id=id) for id in ("kept", "undone", "never"))
    with jobs.claim(limit=4) as claims, psycopg.connect(place.server) as connection:
        mine = {claim.id: claim for claim in claims}
        mine["kept"].complete(connection=connection)
        connection.commit()
        mine["undone"].complete(connection=connection)
        connection.rollback()

    states = {id: state(jobs, id) for id in ("kept", "undone", "never")}
    assert states == {"kept": "completed", "undone": "queued", "never": "queued"}


def test_an_error_that_rolled_back_the_completion_is_recorded_by_the_block_of_all_claims(
    jobs: tenure.Jobs, place: Place
) -> None:
    with pytest.raises(ZeroDivisionError), jobs.claim() as claims:
        for claim in claims:
            with psycopg.connect(place.server) as connection:
                claim.complete(connection=connection)
                raise ZeroDivisionError

    job = jobs.get("job")
    assert job is not None
    assert job.state == "queued"
    assert "ZeroDivisionError" in job.errors[0]


def test_calls_that_wait_for_a_transaction_do_not_keep_it_from_ending(jobs: tenure.Jobs, place: Place) -> None:
    """However many wait for its key, the one that holds it finds a thread for its next call."""

    async def enqueue(*, key: str) -> str:
        async with await psycopg.AsyncConnection.connect(place.server) as connection:
            # So that this ends by itself if it does not hold.
            await connection.execute("set lock_timeout = '15s'")
            return await jobs.aio.enqueue("send", key=key, connection=connection)

    async def story() -> None:
        async with await psycopg.AsyncConnection.connect(place.server) as connection:
            first = await jobs.aio.enqueue("send", key="one", connection=connection)
            others = [asyncio.create_task(enqueue(key="one")) for _ in range(20)]
            await asyncio.to_thread(wait_for_waiters, place, 20)
            await jobs.aio.enqueue("send", connection=connection)
            await connection.commit()
        assert set(await asyncio.gather(*others)) == {first}

    asyncio.run(story())


def wait_for_waiters(place: Place, number: int) -> None:
    """Return when so many calls wait for the lock of another, or after ten seconds."""
    ends_at = time.monotonic() + 10
    while place.execute(WAITING, f"{place.schema}%enqueue_many_v1") != [(number,)] and time.monotonic() < ends_at:
        pass


WAITING = "select count(*) from pg_stat_activity where wait_event_type = 'Lock' and query like '%%' || %s || '%%'"
