"""The caller's own connections to the file of a store: which are accepted, and their state afterwards."""

import logging
import sqlite3
import threading
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import pytest
from tests.stores import transactions
from tests.stores.transactions import SQLiteDatabase, sqlite_database, state

import tenure
from tenure.backends.sqlite import connect, library

jobs, claim = transactions.jobs, transactions.claim


@pytest.fixture
def database() -> Iterator[SQLiteDatabase]:
    with sqlite_database() as made:
        yield made


@pytest.fixture
def own(database: SQLiteDatabase, jobs: tenure.Jobs) -> Iterator[sqlite3.Connection]:  # noqa: ARG001 - makes the table
    """The caller's own connection."""
    with closing(sqlite3.connect(database.path)) as connection:
        yield connection


def test_a_connection_that_begins_no_transactions_is_refused_until_one_is_begun(
    jobs: tenure.Jobs, own: sqlite3.Connection
) -> None:
    own.isolation_level = None

    with pytest.raises(tenure.ConfigurationError, match="execute 'begin immediate' first"):
        jobs.enqueue("next", connection=own)

    own.execute("begin immediate")
    jobs.enqueue("next", id="next", connection=own)
    own.execute("commit")
    assert state(jobs, "next") == "queued"


def test_a_connection_with_autocommit_is_refused_until_a_transaction_is_begun(
    jobs: tenure.Jobs, database: SQLiteDatabase
) -> None:
    class Autocommit(sqlite3.Connection):
        autocommit = True  # as from Python 3.12 on

    with closing(sqlite3.connect(database.path, factory=Autocommit)) as connection:
        with pytest.raises(tenure.ConfigurationError, match="execute 'begin immediate' first"):
            jobs.enqueue("next", connection=connection)

        assert not connection.in_transaction


def test_the_callers_error_goes_on_if_the_store_cannot_be_asked_what_became_of_it(
    claim: tenure.Claim, own: sqlite3.Connection, database: SQLiteDatabase
) -> None:
    with pytest.raises(ZeroDivisionError) as caught, claim:
        claim.complete(connection=own)
        own.rollback()
        database.path.rename(database.path.with_name("away.db"))
        raise ZeroDivisionError

    assert "could not check whether your transaction" in caught.value.__notes__[0]


def test_the_callers_connection_may_be_the_first_to_use_the_file(folder: Path) -> None:
    path = folder / "own.db"
    with closing(sqlite3.connect(path)) as own, tenure.Jobs(f"sqlite:///{path}") as jobs:
        own.execute("create table orders (id integer primary key)")
        with own:
            jobs.enqueue("next", id="next", connection=own)

        assert state(jobs, "next") == "queued"


def test_a_connection_that_cannot_be_used_is_the_callers_mistake(jobs: tenure.Jobs, database: SQLiteDatabase) -> None:
    closed = sqlite3.connect(database.path)
    closed.close()

    with closing(sqlite3.connect(f"file:{database.path}?mode=ro", uri=True)) as read_only:
        for connection in (closed, read_only):
            with pytest.raises(tenure.ConfigurationError, match="cannot use connection"):
                jobs.enqueue("next", connection=connection)


def test_a_connection_of_another_thread_is_the_callers_mistake(jobs: tenure.Jobs, own: sqlite3.Connection) -> None:
    raised: list[Exception] = []

    def enqueue() -> None:
        try:
            jobs.enqueue("next", connection=own)
        except tenure.ConfigurationError as exc:
            raised.append(exc)

    other = threading.Thread(target=enqueue)
    other.start()
    other.join()

    assert "cannot use connection" in str(raised[0])


def test_a_connection_to_another_file_is_refused(jobs: tenure.Jobs, folder: Path) -> None:
    for place in (folder / "other.db", ":memory:"):
        with closing(sqlite3.connect(place)) as other:
            with pytest.raises(tenure.ConfigurationError, match="pass a connection to the file of the jobs"):
                jobs.enqueue("next", connection=other)
            assert not other.in_transaction


def test_what_is_no_connection_is_refused(jobs: tenure.Jobs) -> None:
    with pytest.raises(tenure.ConfigurationError, match=r"must be a sqlite3\.Connection"):
        jobs.enqueue("next", connection="tenure.db")


def test_a_transaction_that_has_read_an_older_state_is_told_to_begin_anew(
    jobs: tenure.Jobs, own: sqlite3.Connection
) -> None:
    own.isolation_level = None
    own.execute("begin")
    own.execute("select count(*) from effects").fetchone()
    jobs.enqueue("between")

    with pytest.raises(tenure.StoreUnavailable, match="has read an older state"):
        jobs.enqueue("next", connection=own)


def test_how_the_caller_wants_rows_and_text_stays(jobs: tenure.Jobs, own: sqlite3.Connection) -> None:
    own.row_factory = sqlite3.Row
    own.text_factory = bytes

    with own:
        jobs.enqueue("next", id="next", key="k", connection=own)
        assert jobs.enqueue("next", key="k", connection=own) == "next"

    assert own.row_factory is sqlite3.Row
    assert own.text_factory is bytes


def test_a_connection_of_the_callers_is_warned_of_the_bug_once(
    jobs: tenure.Jobs,
    own: sqlite3.Connection,
    caplog: pytest.LogCaptureFixture,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(library, "has_wal_reset_bug", lambda _: True)
    connect._warned_files.clear()

    for _ in range(2):
        with own:
            jobs.enqueue("next", connection=own)

    (record,) = [each for each in caplog.records if each.levelno == logging.WARNING]
    assert "your own connection" in record.message
    assert "WAL-reset bug" in record.message
