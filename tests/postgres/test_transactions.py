"""`claim.transaction()` on PostgreSQL: it locks nothing while the block runs, and its session is reused."""

from collections.abc import Iterator
from contextlib import ExitStack
from datetime import datetime, timedelta

import psycopg
import pytest
from psycopg import sql
from psycopg.rows import dict_row

import tenure
from tenure.backends.postgres import idle_sessions
from tests.postgres.proxy import Proxy
from tests.postgres.wire import COMMAND_COMPLETE
from tests.proxies.points import before, from_server
from tests.servers.postgres import Server
from tests.servers.servers import Servers
from tests.stores import transactions
from tests.stores.transactions import PostgresDatabase, job_of, postgres_database, state
from tests.worker.looking import until

jobs, claim = transactions.jobs, transactions.claim


@pytest.fixture
def database(postgres: Server, servers: Servers) -> Iterator[PostgresDatabase]:
    with postgres_database(postgres, servers.schemas) as made:
        yield made


def test_a_holder_that_was_fenced_out_meanwhile_writes_nothing(
    jobs: tenure.Jobs, claim: tenure.Claim, database: PostgresDatabase
) -> None:
    with pytest.raises(tenure.ClaimLost), claim.transaction() as connection:
        database.write(connection, claim.id)
        jobs.enqueue("next", id="next", connection=connection)
        jobs.reap(worker=claim.job.worker)
        (after,) = jobs.claim()
        after.complete("by the next one")

    assert job_of(jobs).result == "by the next one"
    assert database.effects() == []
    assert state(jobs, "next") is None


def test_a_block_of_a_locked_job_begins_and_its_completion_waits_for_the_lock(
    jobs: tenure.Jobs, claim: tenure.Claim, database: PostgresDatabase
) -> None:
    with ExitStack() as lock:
        lock.enter_context(database.place.begun("select from S.jobs for update"))
        with claim.transaction() as connection:
            database.write(connection, claim.id)
            lock.close()

    assert state(jobs) == "completed"


def test_what_only_the_commit_finds_wrong_goes_on_and_nothing_is_completed(
    jobs: tenure.Jobs, claim: tenure.Claim, database: PostgresDatabase
) -> None:
    database.place.execute("alter table S.effects add unique (fence) deferrable initially deferred")

    with pytest.raises(psycopg.errors.UniqueViolation), claim.transaction() as connection:
        database.write(connection, "one", fence=7)
        database.write(connection, "another", fence=7)
        claim.progress(1, note="all is written")

    job = job_of(jobs)
    assert job.progress is not None
    assert (job.state, job.progress.note) == ("queued", "all is written")
    assert "UniqueViolation" in job.errors[0]
    assert database.effects() == []


def test_an_error_that_the_block_caught_is_not_committed_over(
    jobs: tenure.Jobs, claim: tenure.Claim, database: PostgresDatabase
) -> None:
    with pytest.raises(psycopg.errors.InFailedSqlTransaction), claim.transaction() as connection:
        database.write(connection, claim.id)
        with pytest.raises(psycopg.errors.DivisionByZero):
            connection.execute("select 1 / 0")

    assert database.effects() == []
    assert state(jobs) == "queued"


def test_a_transaction_cannot_be_ended_by_a_statement_in_bytes_or_composed(
    claim: tenure.Claim, database: PostgresDatabase
) -> None:
    with claim.transaction() as connection:
        database.write(connection, claim.id)
        for statement in (b"rollback", sql.SQL("commit and chain")):
            with pytest.raises(tenure.ConfigurationError, match="commits when its block ends"):
                connection.execute(statement)

    assert database.effects() == ["job"]


def test_a_commit_that_is_hidden_in_a_text_is_noticed_and_nothing_is_completed(
    jobs: tenure.Jobs, claim: tenure.Claim
) -> None:
    with (
        pytest.raises(tenure.ConfigurationError, match="but a statement ended it early"),
        claim.transaction() as connection,
    ):
        connection.execute("select 1; commit")

    assert state(jobs) == "queued"


def test_a_connection_whose_block_was_left_is_refused(claim: tenure.Claim) -> None:
    with claim.transaction() as connection:
        pass

    with pytest.raises(tenure.ConfigurationError, match="do not use it after the block"):
        connection.execute("select 1")


def test_blocks_of_psycopg_are_savepoints_within(
    jobs: tenure.Jobs, claim: tenure.Claim, database: PostgresDatabase
) -> None:
    with claim.transaction() as connection:
        with pytest.raises(ZeroDivisionError), connection.transaction():
            database.write(connection, claim.id)
            raise ZeroDivisionError
        with connection.transaction():
            database.write(connection, claim.id)

    assert database.effects() == ["job"]
    assert state(jobs) == "completed"


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


def test_a_connection_that_the_server_has_ended_meanwhile_is_not_used_again(
    jobs: tenure.Jobs, database: PostgresDatabase
) -> None:
    jobs.enqueue("work")
    first, second = jobs.claim(limit=2)
    with first.transaction() as connection:
        used = connection.info.backend_pid
    database.place.execute("select pg_terminate_backend(%s)", used)

    with second.transaction() as connection:
        connection.execute("select 1")

    assert state(jobs, second.id) == "completed"


def test_a_session_that_nobody_used_for_long_is_not_kept(jobs: tenure.Jobs, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(idle_sessions, "IDLE_SESSION_TTL", 0.0)
    jobs.enqueue("work")
    first, second = jobs.claim(limit=2)

    with first.transaction() as connection:
        used = connection.info.backend_pid
    with second.transaction() as connection:
        assert connection.info.backend_pid != used


def test_after_close_no_connection_is_left(database: PostgresDatabase) -> None:
    name = database.place.schema
    with tenure.Jobs(f"{database.url}&application_name={name}") as jobs:
        jobs.enqueue("work")
        (claim,) = jobs.claim()
        with claim.transaction() as connection:
            connection.execute("select 1")

    told = "select count(*) from pg_stat_activity where application_name = %s"
    until(lambda: database.place.execute(told, name) == [(0,)])


def test_the_callers_statements_run_under_the_settings_of_the_server(claim: tenure.Claim) -> None:
    with claim.transaction() as connection:
        shown = [connection.execute(f"show {name}").fetchone() for name in ("enable_seqscan", "statement_timeout")]
        level = connection.execute("show transaction_isolation").fetchone()

    assert shown == [("on",), ("0",)]
    assert level == ("read committed",)


def test_a_transaction_may_last_for_several_leases(jobs: tenure.Jobs, database: PostgresDatabase) -> None:
    """The job is not locked before the commit, so its lease can be extended, and no transaction waits."""
    (claim,) = jobs.claim(lease=1)
    first = leased_until(jobs)

    with claim.transaction() as connection:
        database.write(connection, claim.id)
        until(lambda: leased_until(jobs) > first + timedelta(seconds=2))
        jobs.reap()
        assert jobs.claim() == []
        assert not claim.is_lost

    assert state(jobs) == "completed"
    assert database.effects() == ["job"]


def leased_until(jobs: tenure.Jobs) -> datetime:
    job = job_of(jobs)
    assert job.leased_until is not None
    return job.leased_until


def test_while_it_is_open_other_claims_and_the_job_itself_can_be_written(
    jobs: tenure.Jobs, claim: tenure.Claim, database: PostgresDatabase
) -> None:
    jobs.enqueue("work", id="other")
    (other,) = jobs.claim()

    with claim.transaction() as connection:
        database.write(connection, claim.id)
        claim.progress(1, of=2)
        other.extend()
        other.complete()
        jobs.cancel("job")

    assert (state(jobs), state(jobs, "other")) == ("completed", "completed")


def test_a_job_enqueued_within_wakes_who_waits_when_it_is_committed(
    jobs: tenure.Jobs, claim: tenure.Claim, monkeypatch: pytest.MonkeyPatch
) -> None:
    rung: list[object] = []
    monkeypatch.setattr(jobs._backend._waiter, "wake", rung.append)  # type: ignore[attr-defined]

    with claim.transaction() as connection:
        jobs.enqueue("next", queue="after", connection=connection)
        assert rung == []

    assert rung == [{"after"}]


@pytest.mark.usefixtures("jobs")
def test_a_commit_whose_answer_is_lost_is_told_and_not_done_twice(postgres: Server, database: PostgresDatabase) -> None:
    with Proxy(postgres) as proxy, tenure.Jobs(proxy.url_of(database.place.schema)) as jobs:
        (claim,) = jobs.claim()

        with (
            pytest.raises(tenure.StoreUnavailable, match="may or may not have landed"),
            claim.transaction() as connection,
        ):
            database.write(connection, claim.id)
            # From here on all remaining requests use this connection.
            jobs.enqueue("next", id="next", connection=connection)
            proxy.cut(before(from_server("COMMIT", COMMAND_COMPLETE)))

        assert database.effects() == ["job"]
        assert state(jobs, "next") == "queued"
        assert state(jobs) == "completed"
