"""`jobs.enqueue(connection=…)`: new jobs are part of the caller's transaction, and roll back with it."""

import sqlite3
from contextlib import closing

import pytest

import tenure
from tests.stores import transactions
from tests.stores.transactions import Database, job_of, state

database, jobs = transactions.database, transactions.jobs


def test_a_job_enqueued_on_the_callers_connection_is_there_if_that_commits(
    jobs: tenure.Jobs, database: Database
) -> None:
    with database.connect() as own:
        database.write(own, "mine")
        jobs.enqueue("next", {"n": 1}, id="next", delay=60, key="k", meta={"a": "b"}, connection=own)

    job = job_of(jobs, "next")
    assert (job.state, job.payload, job.key, job.meta) == ("queued", {"n": 1}, "k", {"a": "b"})
    assert jobs.stats().total("scheduled") == 1
    assert database.effects() == ["mine"]


def test_a_job_enqueued_on_the_callers_connection_is_not_there_if_that_is_rolled_back(
    jobs: tenure.Jobs, database: Database
) -> None:
    with database.connect() as own:
        database.write(own, "mine")
        jobs.enqueue("next", id="next", delay=60, connection=own)
        own.rollback()

    assert state(jobs, "next") is None
    assert jobs.stats().total("scheduled") == 0
    assert database.effects() == []


def test_a_connection_without_a_transaction_gets_one_that_the_caller_commits(
    jobs: tenure.Jobs, database: Database
) -> None:
    with database.connect() as own:
        jobs.enqueue("next", id="next", connection=own)

        assert state(jobs, "next") is None
        own.commit()
        assert state(jobs, "next") == "queued"


def test_a_key_that_is_taken_leaves_the_callers_transaction_as_it_was(jobs: tenure.Jobs, database: Database) -> None:
    jobs.enqueue("next", key="k", id="holder")

    with database.connect() as own:
        database.write(own, "mine")
        with pytest.raises(tenure.KeyTaken) as caught:
            jobs.enqueue_many(
                [tenure.NewJob("other", id="other"), tenure.NewJob("next", key="k", on_conflict="raise")],
                connection=own,
            )

    assert caught.value.id == "holder"
    assert database.effects() == ["mine"]
    assert state(jobs, "other") is None


def test_memory_has_no_transactions_and_says_so() -> None:
    jobs = tenure.Jobs("memory://")
    jobs.enqueue("work")
    (claim,) = jobs.claim()

    with pytest.raises(tenure.ConfigurationError, match="memory store has no SQL transactions"), claim.transaction():
        pass
    with (
        closing(sqlite3.connect(":memory:")) as connection,
        pytest.raises(tenure.ConfigurationError, match="memory store has no SQL transactions"),
    ):
        jobs.enqueue("work", connection=connection)
