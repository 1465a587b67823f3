"""`claim.transaction()` on a SQLite file: one writer at a time, and transactions that SQLite rolls back."""

import threading
from collections.abc import Iterator
from contextlib import suppress

import pytest
from tests.stores import transactions
from tests.stores.transactions import PATIENCE, SQLiteDatabase, sqlite_database, state

import tenure

jobs, claim = transactions.jobs, transactions.claim


@pytest.fixture
def database() -> Iterator[SQLiteDatabase]:
    with sqlite_database() as made:
        yield made


def test_a_stale_holder_that_is_refused_is_counted(jobs: tenure.Jobs, claim: tenure.Claim) -> None:
    jobs.reap(worker=claim.job.worker)

    with pytest.raises(tenure.ClaimLost), claim.transaction():
        pass

    assert [count.number for count in jobs.counts() if count.event is tenure.Event.REFUSED] == [1]


def test_a_script_is_refused_because_it_would_commit_first(claim: tenure.Claim, database: SQLiteDatabase) -> None:
    with claim.transaction() as connection:
        database.write(connection, claim.id)
        for executescript in (connection.executescript, connection.cursor().executescript):
            with pytest.raises(tenure.ConfigurationError, match="commits when its block ends"):
                executescript("select 1")

    assert database.effects() == ["job"]


def test_after_sqlite_rolled_it_back_nothing_more_is_written(
    jobs: tenure.Jobs, claim: tenure.Claim, database: SQLiteDatabase
) -> None:
    with (
        pytest.raises(tenure.ConfigurationError, match="SQLite rolled back this transaction"),
        claim.transaction() as connection,
    ):
        database.write(connection, claim.id)
        with suppress(database.duplicate_row):
            connection.execute("insert or rollback into effects values ('job', 0)")
        database.write(connection, "late")

    assert database.effects() == []
    assert state(jobs) == "queued"


def test_a_transaction_that_sqlite_rolled_back_is_not_completed(
    jobs: tenure.Jobs, claim: tenure.Claim, database: SQLiteDatabase
) -> None:
    with (
        pytest.raises(tenure.ConfigurationError, match="SQLite rolled back this transaction"),
        claim.transaction() as connection,
    ):
        database.write(connection, claim.id)
        with suppress(database.duplicate_row):
            connection.execute("insert or rollback into effects values ('job', 0)")

    assert database.effects() == []
    assert state(jobs) == "queued"


def test_a_cursor_with_rows_left_is_told_at_once(claim: tenure.Claim, database: SQLiteDatabase) -> None:
    with (
        pytest.raises(tenure.StoreUnavailable, match="read the cursor to its end, or close it first"),
        claim.transaction() as connection,
    ):
        cursor = connection.execute("insert into effects values ('a', 0), ('b', 0) returning job")
        cursor.fetchone()

    assert database.effects() == []


def test_what_would_wait_for_the_transaction_that_it_is_in_is_refused_at_once(
    jobs: tenure.Jobs, claim: tenure.Claim, database: SQLiteDatabase
) -> None:
    with claim.transaction() as connection:
        database.write(connection, claim.id)
        for action in (lambda: jobs.enqueue("next"), jobs.claim, claim.extend, claim.release):
            with pytest.raises(tenure.ConfigurationError, match=r"would wait for the claim\.transaction\(\)"):
                action()

    assert database.effects() == ["job"]


def test_a_long_transaction_is_logged(jobs: tenure.Jobs, caplog: pytest.LogCaptureFixture) -> None:
    (claim,) = jobs.claim(lease=1)

    with claim.transaction():
        threading.Event().wait(0.4)

    assert [record.message for record in caplog.records if "held the write lock" in record.message]


def test_other_threads_wait_for_a_transaction(jobs: tenure.Jobs, claim: tenure.Claim) -> None:
    with claim.transaction():
        other = threading.Thread(target=jobs.enqueue, args=("next",), daemon=True)
        other.start()
        other.join(0.1)
        assert other.is_alive()

    other.join(PATIENCE)
    assert not other.is_alive()
    assert jobs.stats().total("due") == 1
