"""Writes of the caller's own, together with the completion and with new jobs: all of it or nothing."""

import logging
import sqlite3
import threading
from collections.abc import Iterator
from contextlib import closing, suppress
from functools import partial
from pathlib import Path

import pytest

import tenure
from tenure.backends.sqlite import library, opening


@pytest.fixture
def jobs(path: Path) -> Iterator[tenure.Jobs]:
    with tenure.Jobs(f"sqlite:///{path}?timeout=1") as made:
        made.enqueue("work", id="job")
        yield made


@pytest.fixture
def claim(jobs: tenure.Jobs, path: Path) -> tenure.Claim:
    (claim,) = jobs.claim(lease=60)
    with closing(sqlite3.connect(path)) as db, db:
        db.execute("create table receipts (job text primary key, fence integer)")
    return claim


@pytest.fixture
def own(path: Path, claim: tenure.Claim) -> Iterator[sqlite3.Connection]:  # noqa: ARG001 - it makes the table
    """A connection of the caller's own."""
    with closing(sqlite3.connect(path, timeout=1)) as connection:
        yield connection


def receipts(path: Path) -> list[str]:
    with closing(sqlite3.connect(path)) as db:
        return [job for (job,) in db.execute("select job from receipts order by job")]


def write(connection: sqlite3.Connection, claim: tenure.Claim) -> None:
    connection.execute("insert into receipts values (?, ?)", (claim.id, claim.fence))


def state(jobs: tenure.Jobs, id: str = "job") -> str | None:
    job = jobs.get(id)
    return None if job is None else job.state


def test_a_transaction_holds_the_effect_the_completion_and_new_jobs(
    jobs: tenure.Jobs, claim: tenure.Claim, path: Path
) -> None:
    with claim.transaction() as connection:
        write(connection, claim)
        jobs.enqueue("next", id="next", connection=connection)
        claim.result = {"written": 1}

    job = jobs.get("job")
    assert job is not None
    assert (job.state, job.result) == ("completed", {"written": 1})
    assert receipts(path) == ["job"]
    assert state(jobs, "next") == "queued"
    assert claim.is_settled


def test_nobody_sees_a_transaction_before_it_ends(jobs: tenure.Jobs, claim: tenure.Claim, path: Path) -> None:
    with claim.transaction() as connection:
        write(connection, claim)
        jobs.enqueue("next", id="next", connection=connection)

        assert receipts(path) == []
        assert state(jobs, "next") is None
        assert state(jobs) == "running"


def test_a_stale_holder_is_refused_at_once_and_nothing_is_written(
    jobs: tenure.Jobs, claim: tenure.Claim, path: Path
) -> None:
    jobs.reap(worker=claim.job.worker)
    entered = False

    with pytest.raises(tenure.ClaimLost), claim.transaction() as connection:
        entered = True
        write(connection, claim)

    assert not entered
    assert claim.is_lost
    assert receipts(path) == []
    assert state(jobs) == "queued"
    assert [count.number for count in jobs.counts() if count.event is tenure.Event.REFUSED] == [1]


def test_an_exception_undoes_all_of_it_is_recorded_and_goes_on(
    jobs: tenure.Jobs, claim: tenure.Claim, path: Path
) -> None:
    with pytest.raises(ZeroDivisionError), claim.transaction() as connection:
        write(connection, claim)
        jobs.enqueue("next", id="next", connection=connection)
        raise ZeroDivisionError

    job = jobs.get("job")
    assert job is not None
    assert job.state == "queued"
    assert "ZeroDivisionError" in job.errors[0]
    assert receipts(path) == []
    assert state(jobs, "next") is None


def test_in_a_block_of_its_claim_an_exception_is_recorded_too(
    jobs: tenure.Jobs, claim: tenure.Claim, path: Path
) -> None:
    with pytest.raises(ZeroDivisionError), claim, claim.transaction() as connection:
        write(connection, claim)
        raise ZeroDivisionError

    job = jobs.get("job")
    assert job is not None
    assert job.state == "queued"
    assert "ZeroDivisionError" in job.errors[0]
    assert receipts(path) == []


def test_an_answer_undoes_it_and_ends_in_the_block(jobs: tenure.Jobs, claim: tenure.Claim, path: Path) -> None:
    with claim.transaction() as connection:
        write(connection, claim)
        raise tenure.Fail("not today")

    assert state(jobs) == "failed"
    assert receipts(path) == []


def test_an_answer_as_its_result_is_refused(jobs: tenure.Jobs, claim: tenure.Claim, path: Path) -> None:
    with pytest.raises(tenure.ConfigurationError, match="raise Retry"), claim.transaction() as connection:
        write(connection, claim)
        claim.result = tenure.Retry()

    assert receipts(path) == []
    assert state(jobs) == "queued"


def test_a_result_that_is_no_json_undoes_it(jobs: tenure.Jobs, claim: tenure.Claim, path: Path) -> None:
    with pytest.raises(tenure.InvalidPayload), claim.transaction() as connection:
        write(connection, claim)
        claim.result = object()

    assert receipts(path) == []
    assert state(jobs) == "queued"


def test_an_interruption_undoes_it_and_gives_the_job_back(jobs: tenure.Jobs, claim: tenure.Claim, path: Path) -> None:
    with pytest.raises(KeyboardInterrupt), claim.transaction() as connection:
        write(connection, claim)
        raise KeyboardInterrupt

    job = jobs.get("job")
    assert job is not None
    assert (job.state, job.attempts) == ("queued", 0)
    assert receipts(path) == []


def test_a_job_that_always_fails_in_its_transaction_is_not_tried_for_ever(jobs: tenure.Jobs) -> None:
    jobs.enqueue("doomed", id="doomed", max_attempts=1)

    with jobs.claim(types="doomed") as claims:
        for claim in claims:
            with suppress(sqlite3.OperationalError), claim.transaction() as connection:
                connection.execute("insert into no_such_table values (1)")

    job = jobs.get("doomed")
    assert job is not None
    assert job.state == "failed"
    assert "no_such_table" in job.errors[0]


def test_the_callers_own_errors_are_not_changed(claim: tenure.Claim, path: Path) -> None:
    with pytest.raises(sqlite3.IntegrityError), claim.transaction() as connection:
        write(connection, claim)
        write(connection, claim)

    assert receipts(path) == []


@pytest.mark.parametrize(
    "statement",
    ["commit", "ROLLBACK", "begin immediate", "end", "  /* now */ -- and here\n commit;", "rollback transaction"],
)
def test_a_transaction_cannot_be_ended_from_within(claim: tenure.Claim, path: Path, statement: str) -> None:
    with claim.transaction() as connection:
        write(connection, claim)
        for execute in (connection.execute, connection.cursor().execute):
            with pytest.raises(tenure.ConfigurationError, match="committed when its block is left"):
                execute(statement)

    assert receipts(path) == ["job"]


def test_after_sqlite_rolled_it_back_nothing_more_is_written(
    jobs: tenure.Jobs, claim: tenure.Claim, path: Path
) -> None:
    with pytest.raises(tenure.ConfigurationError, match="was rolled back by SQLite"), claim.transaction() as connection:
        write(connection, claim)
        with suppress(sqlite3.IntegrityError):
            connection.execute("insert or rollback into receipts values ('job', 0)")
        connection.execute("insert into receipts values ('late', 0)")

    assert receipts(path) == []
    assert state(jobs) == "queued"


def test_a_transaction_that_sqlite_rolled_back_is_not_completed(
    jobs: tenure.Jobs, claim: tenure.Claim, path: Path
) -> None:
    with pytest.raises(tenure.ConfigurationError, match="was rolled back by SQLite"), claim.transaction() as connection:
        write(connection, claim)
        with suppress(sqlite3.IntegrityError):
            connection.execute("insert or rollback into receipts values ('job', 0)")

    assert receipts(path) == []
    assert state(jobs) == "queued"


def test_a_cursor_with_rows_left_is_told_at_once(claim: tenure.Claim, path: Path) -> None:
    with (
        pytest.raises(tenure.StoreUnavailable, match="read a cursor to its end, or close it"),
        claim.transaction() as connection,
    ):
        cursor = connection.execute("insert into receipts values ('a', 0), ('b', 0) returning job")
        cursor.fetchone()

    assert receipts(path) == []


def test_the_methods_that_would_end_it_say_what_to_do_instead(claim: tenure.Claim, path: Path) -> None:
    with claim.transaction() as connection:
        write(connection, claim)
        script = partial(connection.executescript, "select 1")
        for method in (connection.commit, connection.rollback, connection.close, script):
            with pytest.raises(tenure.ConfigurationError, match="committed when its block is left"):
                method()
        with pytest.raises(tenure.ConfigurationError, match="leave that out"), connection:
            pass

    assert receipts(path) == ["job"]


def test_savepoints_work_within(claim: tenure.Claim, path: Path) -> None:
    with claim.transaction() as connection:
        write(connection, claim)
        connection.execute("savepoint mine")
        connection.execute("delete from receipts")
        connection.execute("rollback to mine")

    assert receipts(path) == ["job"]


def test_what_would_wait_for_the_transaction_that_it_is_in_is_refused_at_once(
    jobs: tenure.Jobs, claim: tenure.Claim, path: Path
) -> None:
    with claim.transaction() as connection:
        write(connection, claim)
        for action in (lambda: jobs.enqueue("next"), jobs.claim, claim.extend, claim.release):
            with pytest.raises(tenure.ConfigurationError, match=r"would wait for the claim\.transaction\(\)"):
                action()

    assert receipts(path) == ["job"]


def test_a_long_transaction_is_logged(jobs: tenure.Jobs, caplog: pytest.LogCaptureFixture) -> None:
    (claim,) = jobs.claim(lease=1)

    with claim.transaction():
        threading.Event().wait(0.4)

    assert [record.message for record in caplog.records if "nobody else could write" in record.message]


def test_other_threads_wait_for_a_transaction(jobs: tenure.Jobs, claim: tenure.Claim) -> None:
    with claim.transaction():
        other = threading.Thread(target=jobs.enqueue, args=("next",), daemon=True)
        other.start()
        other.join(0.1)
        assert other.is_alive()

    other.join(30)
    assert not other.is_alive()
    assert jobs.stats().total("due") == 1


def test_a_claim_can_have_its_transaction_once(claim: tenure.Claim) -> None:
    with claim.transaction():
        pass

    with pytest.raises(tenure.ClaimLost, match="completed already"), claim.transaction():
        pass


def test_a_completion_by_hand_within_is_the_one_that_counts(jobs: tenure.Jobs, claim: tenure.Claim, path: Path) -> None:
    with claim.transaction() as connection:
        write(connection, claim)
        claim.complete("by hand", connection=connection)

    job = jobs.get("job")
    assert job is not None
    assert (job.state, job.result) == ("completed", "by hand")
    assert receipts(path) == ["job"]


def test_a_completion_by_hand_within_is_undone_by_an_exception(
    jobs: tenure.Jobs, claim: tenure.Claim, path: Path
) -> None:
    with pytest.raises(ZeroDivisionError), claim, claim.transaction() as connection:
        write(connection, claim)
        claim.complete(connection=connection)
        raise ZeroDivisionError

    assert state(jobs) == "queued"
    assert receipts(path) == []


def test_memory_has_no_transactions_and_says_so() -> None:
    jobs = tenure.Jobs("memory://")
    jobs.enqueue("work")
    (claim,) = jobs.claim()

    with pytest.raises(tenure.ConfigurationError, match="memory store has no transactions"), claim.transaction():
        pass
    with (
        closing(sqlite3.connect(":memory:")) as connection,
        pytest.raises(tenure.ConfigurationError, match="memory store has no transactions"),
    ):
        jobs.enqueue("work", connection=connection)


def test_a_completion_on_the_callers_connection_counts_when_that_commits(
    jobs: tenure.Jobs, claim: tenure.Claim, own: sqlite3.Connection, path: Path
) -> None:
    with own:
        write(own, claim)
        claim.complete({"done": True}, connection=own)
        assert state(jobs) == "running"

    job = jobs.get("job")
    assert job is not None
    assert (job.state, job.result) == ("completed", {"done": True})
    assert receipts(path) == ["job"]


def test_a_completion_on_the_callers_connection_is_undone_with_it(
    jobs: tenure.Jobs, claim: tenure.Claim, own: sqlite3.Connection, path: Path
) -> None:
    write(own, claim)
    claim.complete(connection=own)
    own.rollback()

    assert state(jobs) == "running"
    assert receipts(path) == []


def test_a_stale_completion_on_the_callers_connection_is_refused(
    jobs: tenure.Jobs, claim: tenure.Claim, own: sqlite3.Connection, path: Path
) -> None:
    jobs.reap(worker=claim.job.worker)

    with pytest.raises(tenure.ClaimLost), own:
        write(own, claim)
        claim.complete(connection=own)

    assert receipts(path) == []
    assert state(jobs) == "queued"


def test_what_undid_the_callers_transaction_is_recorded_on_the_job(
    jobs: tenure.Jobs, claim: tenure.Claim, own: sqlite3.Connection
) -> None:
    with pytest.raises(ZeroDivisionError), claim, own:
        claim.complete(connection=own)
        raise ZeroDivisionError

    job = jobs.get("job")
    assert job is not None
    assert job.state == "queued"
    assert "ZeroDivisionError" in job.errors[0]


def test_an_exception_after_the_callers_commit_changes_nothing(
    jobs: tenure.Jobs, claim: tenure.Claim, own: sqlite3.Connection
) -> None:
    with pytest.raises(ZeroDivisionError), claim:
        with own:
            claim.complete(connection=own)
        raise ZeroDivisionError

    assert state(jobs) == "completed"


def test_while_the_callers_transaction_is_open_nothing_is_sent_behind_its_back(
    jobs: tenure.Jobs, claim: tenure.Claim, own: sqlite3.Connection
) -> None:
    with pytest.raises(ZeroDivisionError) as caught, own, claim:
        claim.complete(connection=own)
        raise ZeroDivisionError

    assert "if your transaction is committed" in caught.value.__notes__[0]
    assert state(jobs) == "running"


@pytest.mark.parametrize("commits", [True, False])
def test_a_job_enqueued_on_the_callers_connection_is_there_if_that_commits(
    jobs: tenure.Jobs,
    own: sqlite3.Connection,
    commits: bool,  # noqa: FBT001
) -> None:
    own.execute("insert into receipts values ('mine', 0)")
    jobs.enqueue("next", {"n": 1}, id="next", delay=60, key="k", meta={"a": "b"}, connection=own)
    own.commit() if commits else own.rollback()

    assert state(jobs, "next") == ("queued" if commits else None)
    assert jobs.stats().total("scheduled") == commits


def test_a_connection_without_a_transaction_gets_one_that_the_caller_commits(
    jobs: tenure.Jobs, own: sqlite3.Connection
) -> None:
    jobs.enqueue("next", id="next", connection=own)

    assert state(jobs, "next") is None
    own.commit()
    assert state(jobs, "next") == "queued"


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


def test_a_key_that_is_taken_leaves_the_callers_transaction_as_it_was(
    jobs: tenure.Jobs, own: sqlite3.Connection, path: Path
) -> None:
    jobs.enqueue("next", key="k", id="holder")

    with own:
        own.execute("insert into receipts values ('mine', 0)")
        with pytest.raises(tenure.KeyTaken) as caught:
            jobs.enqueue_many(
                [tenure.NewJob("other", id="other"), tenure.NewJob("next", key="k", on_conflict="raise")],
                connection=own,
            )

    assert caught.value.id == "holder"
    assert receipts(path) == ["mine"]
    assert state(jobs, "other") is None


def test_the_callers_error_goes_on_if_the_store_cannot_be_asked_what_became_of_it(
    claim: tenure.Claim, own: sqlite3.Connection, path: Path
) -> None:
    with pytest.raises(ZeroDivisionError) as caught, claim:
        claim.complete(connection=own)
        own.rollback()
        path.rename(path.with_name("away.db"))
        raise ZeroDivisionError

    assert "could not be asked" in caught.value.__notes__[0]


def test_a_completion_that_was_rolled_back_can_be_tried_again(
    jobs: tenure.Jobs, claim: tenure.Claim, own: sqlite3.Connection, path: Path
) -> None:
    claim.complete(connection=own)
    own.rollback()
    assert state(jobs) == "running"

    with own:
        write(own, claim)
        claim.complete("second try", connection=own)

    job = jobs.get("job")
    assert job is not None
    assert (job.state, job.result) == ("completed", "second try")
    assert receipts(path) == ["job"]


def test_a_job_whose_completion_was_rolled_back_is_not_completed_by_leaving_its_block(
    jobs: tenure.Jobs, claim: tenure.Claim, own: sqlite3.Connection, path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    with claim:
        write(own, claim)
        claim.complete("never committed", connection=own)
        own.rollback()

    job = jobs.get("job")
    assert job is not None
    assert (job.state, job.attempts) == ("queued", 1)
    assert "was rolled back" in job.errors[0]
    assert receipts(path) == []
    assert "was rolled back: it has failed" in caplog.text


def test_the_callers_connection_may_be_the_first_to_use_the_file(folder: Path) -> None:
    path = folder / "own.db"
    with closing(sqlite3.connect(path)) as own, tenure.Jobs(f"sqlite:///{path}") as jobs:
        own.execute("create table orders (id integer primary key)")
        with own:
            jobs.enqueue("next", id="next", connection=own)

        assert state(jobs, "next") == "queued"


def test_a_completion_that_was_committed_cannot_be_repeated(
    jobs: tenure.Jobs, claim: tenure.Claim, own: sqlite3.Connection
) -> None:
    with own:
        claim.complete("first", connection=own)

    with pytest.raises(tenure.ClaimLost, match="completed already"):
        claim.complete("second")

    job = jobs.get("job")
    assert job is not None
    assert job.result == "first"
    assert [count for count in jobs.counts() if count.event is tenure.Event.REFUSED] == []


def test_a_connection_with_autocommit_is_refused_until_a_transaction_is_begun(jobs: tenure.Jobs, path: Path) -> None:
    class Autocommit(sqlite3.Connection):
        autocommit = True  # as from Python 3.12 on

    with closing(sqlite3.connect(path, factory=Autocommit)) as connection:
        with pytest.raises(tenure.ConfigurationError, match="execute 'begin immediate' first"):
            jobs.enqueue("next", connection=connection)

        assert not connection.in_transaction


def test_a_connection_that_cannot_be_used_is_the_callers_mistake(jobs: tenure.Jobs, path: Path) -> None:
    closed = sqlite3.connect(path)
    closed.close()
    read_only = sqlite3.connect(f"file:{path}?mode=ro", uri=True)

    for connection in (closed, read_only):
        with pytest.raises(tenure.ConfigurationError, match="connection cannot be used for this"):
            jobs.enqueue("next", connection=connection)
    read_only.close()


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

    assert "connection cannot be used for this" in str(raised[0])


def test_how_the_caller_wants_rows_and_text_stays(jobs: tenure.Jobs, own: sqlite3.Connection) -> None:
    own.row_factory = sqlite3.Row
    own.text_factory = bytes

    with own:
        jobs.enqueue("next", id="next", key="k", connection=own)
        assert jobs.enqueue("next", key="k", connection=own) == "next"

    assert own.row_factory is sqlite3.Row
    assert own.text_factory is bytes


def test_a_connection_to_another_file_is_refused(jobs: tenure.Jobs, folder: Path) -> None:
    for place in (folder / "other.db", ":memory:"):
        with closing(sqlite3.connect(place)) as other:
            with pytest.raises(tenure.ConfigurationError, match="only hold both if they are in one file"):
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
    own.execute("select count(*) from receipts").fetchone()
    jobs.enqueue("between")

    with pytest.raises(tenure.StoreUnavailable, match="has read an older state"):
        jobs.enqueue("next", connection=own)


def test_a_connection_of_the_callers_is_warned_of_the_bug_once(
    jobs: tenure.Jobs,
    own: sqlite3.Connection,
    caplog: pytest.LogCaptureFixture,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(library, "has_wal_reset_bug", lambda _: True)
    opening._warned.clear()

    for _ in range(2):
        with own:
            jobs.enqueue("next", connection=own)

    (record,) = [each for each in caplog.records if each.levelno == logging.WARNING]
    assert "a connection of your own" in record.message
    assert "WAL-reset bug" in record.message
