"""Operations inside the caller's transaction do the same as the operations of the store."""

from collections.abc import Callable
from datetime import timedelta

import psycopg
import pytest

import tenure
from tenure.backends.postgres import PostgreSQL
from tenure.core.job import Job, Progress
from tenure.core.operations import Extension, Hold, HoldStatus, Move, Settlement
from tenure.testing.conformance.building import (
    Taken,
    build_cancellation,
    build_completion,
    build_failure,
    build_record,
    build_release,
    build_retry,
    build_snooze,
    job_of,
    take_one,
)
from tests.postgres.stores import Place

ENDINGS: dict[str, Callable[[Taken], Settlement]] = {
    "completed": lambda taken: build_completion(taken, {"sum": [1, 2.5, "☃"]}),
    "completed with nothing": build_completion,
    "completed, its result dropped": lambda taken: build_completion(taken, "x" * 300_000),
    "failed": build_failure,
    "failed for good": lambda taken: build_failure(taken, final=True),
    "retried": lambda taken: build_retry(taken, delay=7.5, why="later"),
    "snoozed": build_snooze,
    "released": build_release,
    "cancelled": lambda taken: build_cancellation(taken, "not needed"),
}


def ended(job: Job) -> tuple[object, ...]:
    """Return the state after an ending, without timestamps; the delay is measured from the ending."""
    delays = [max(timedelta(0), job.run_at - each.ended_at) for each in job.history]
    endings = [(each.outcome, each.error, each.fence) for each in job.history]
    return job.state, job.result, job.result_dropped, job.attempts, delays, endings


@pytest.mark.parametrize("ending", ENDINGS)
def test_an_ending_is_as_one_of_the_store(place: Place, store: PostgreSQL, ending: str) -> None:
    store.enqueue([build_record(id="joined"), build_record(id="plain")])
    joined, plain = (ENDINGS[ending](take_one(store)) for _ in range(2))

    with psycopg.connect(place.server) as connection, store.join(connection) as operations:
        assert operations.settle([joined]) == [True]
        assert operations.is_open()
        connection.rollback()
        assert not operations.is_open()
        assert operations.settle([joined]) == [True]
    assert store.settle([plain]) == [True]

    assert ended(job_of(store, "joined")) == ended(job_of(store, "plain"))


def test_an_extension_is_as_one_of_the_store(place: Place, store: PostgreSQL) -> None:
    store.enqueue([build_record(id="one"), build_record(id="two")])
    one, two = (take_one(store) for _ in range(2))
    store.move(["two"], Move.CANCEL)
    extensions = [
        Extension(hold=one.hold, lease=3600, progress=Progress(done=1, of=2, note="half")),
        Extension(hold=two.hold, lease=3600),
        Extension(hold=Hold(id="one", fence=1, token="another"), lease=3600),
    ]

    with psycopg.connect(place.server) as connection, store.join(connection) as operations:
        answers = operations.extend(extensions)

    assert answers == [HoldStatus.HELD, HoldStatus.CANCEL_REQUESTED, HoldStatus.LOST]
    extended = job_of(store, "one")
    assert extended.progress == Progress(done=1, of=2, note="half")
    assert extended.leased_until is not None
    assert one.job.leased_until is not None
    assert extended.leased_until > one.job.leased_until


def test_nothing_is_asked_for_nothing(place: Place, store: PostgreSQL) -> None:
    with psycopg.connect(place.server) as connection, store.join(connection) as operations:
        assert (operations.enqueue([]), operations.extend([]), operations.settle([])) == ([], [], [])
        assert not operations.is_open()


def test_what_the_store_refuses_is_told_in_its_words(place: Place) -> None:
    with (
        tenure.Jobs(place.url) as jobs,
        psycopg.connect(place.server) as connection,
        pytest.raises(tenure.ConfigurationError, match="a number too large for a double"),
    ):
        jobs.enqueue("send", {"number": 10**400}, connection=connection)


def test_a_store_that_was_made_anew_is_known_again(place: Place) -> None:
    with tenure.Jobs(place.url) as jobs, psycopg.connect(place.server) as connection:
        jobs.enqueue("send", connection=connection)
        connection.rollback()
        place.execute(f"drop schema {place.schema} cascade")
        place.open().migrate()

        with pytest.raises(tenure.ConfigurationError, match="another store"):
            jobs.enqueue("send", connection=connection)
        connection.rollback()
        id = jobs.enqueue("send", connection=connection)
        connection.commit()

        assert jobs.get(id) is not None
