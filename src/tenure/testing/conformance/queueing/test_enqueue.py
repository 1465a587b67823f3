"""Enqueueing jobs."""

from datetime import UTC, datetime, timedelta

import pytest

from tenure.backends.protocol import Backend
from tenure.core.job import State
from tenure.core.operations import Enqueued, Query
from tenure.errors import KeyTaken
from tenure.testing import Clock
from tenure.testing.conformance.building import (
    build_completion,
    build_failure,
    build_record,
    ids_of,
    job_of,
    settle,
    take,
    take_one,
)


def test_an_enqueued_job_is_stored_as_it_was_given(store: Backend, clock: Clock) -> None:
    given = build_record(
        "send",
        id="m7",
        payload={"to": "ada@example.org"},
        queue="mail",
        priority=3,
        delay=60,
        key="k7",
        max_attempts=None,
        max_crashes=9,
        timeout=30,
        meta={"traceparent": "00-1"},
    )

    answers = store.enqueue([given])

    job = job_of(store, "m7")
    assert answers == [Enqueued(id="m7", created=True)]
    assert (job.type, job.queue, job.priority, job.key) == ("send", "mail", 3, "k7")
    assert job.payload == {"to": "ada@example.org"}
    assert (job.max_attempts, job.max_crashes, job.timeout) == (None, 9, 30.0)
    assert job.meta == {"traceparent": "00-1"}
    assert job.run_at == clock.now + timedelta(seconds=60)
    assert job.created_at == clock.now


def test_a_new_job_is_queued_and_untouched(store: Backend) -> None:
    store.enqueue([build_record(id="a")])

    job = job_of(store, "a")
    assert (job.state, job.attempts, job.crashes, job.fence) == (State.QUEUED, 0, 0, 0)
    assert (job.worker, job.leased_until, job.progress, job.result) == (None, None, None, None)
    assert (job.history, job.history_dropped, job.cancel_requested) == ((), 0, False)
    assert (job.started_at, job.finished_at) == (None, None)


def test_without_a_time_a_job_is_due_now(store: Backend, clock: Clock) -> None:
    store.enqueue([build_record(id="a")])

    assert job_of(store, "a").run_at == clock.now


def test_a_moment_of_the_callers_own_is_kept_to_the_microsecond(store: Backend) -> None:
    run_at = datetime(2031, 5, 6, 7, 8, 9, 123_457, tzinfo=UTC)
    store.enqueue([build_record(id="a", run_at=run_at)])

    assert job_of(store, "a").run_at == run_at


def test_the_same_id_is_the_same_job_and_the_first_content_wins(store: Backend) -> None:
    store.enqueue([build_record(id="a", payload={"n": 1})])

    answers = store.enqueue([build_record(id="a", payload={"n": 2}, priority=9)])

    assert answers == [Enqueued(id="a", created=False)]
    assert job_of(store, "a").payload == {"n": 1}
    assert len(store.find(Query()).jobs) == 1


def test_the_same_id_twice_in_one_request_is_one_job(store: Backend) -> None:
    answers = store.enqueue([build_record(id="a", payload={"n": 1}), build_record(id="a", payload={"n": 2})])

    assert answers == [Enqueued(id="a", created=True), Enqueued(id="a", created=False)]
    assert job_of(store, "a").payload == {"n": 1}


def test_an_id_stays_taken_while_its_job_runs_and_after_it_finished(store: Backend) -> None:
    store.enqueue([build_record(id="a")])
    taken = take_one(store)
    while_running = store.enqueue([build_record(id="a")])
    settle(store, build_completion(taken))
    after = store.enqueue([build_record(id="a")])

    assert while_running == after == [Enqueued(id="a", created=False)]
    assert take(store) == []


def test_an_enqueue_sent_again_answers_the_same_jobs(store: Backend) -> None:
    entries = [build_record(id="a"), build_record(id="b")]
    first = store.enqueue(entries)

    again = store.enqueue(entries)

    assert [each.id for each in again] == [each.id for each in first]
    assert store.stats().total("due") == 2


def test_all_jobs_of_a_request_are_stored_or_none(store: Backend) -> None:
    store.enqueue([build_record(id="holder", key="k")])

    with pytest.raises(KeyTaken):
        store.enqueue([build_record(id="a"), build_record(id="b", key="k", on_conflict="raise"), build_record(id="c")])

    assert ids_of(store.find(Query()).jobs) == ["holder"]
    assert store.stats().total("due") == 1


def test_jobs_of_one_request_are_claimed_in_its_order(store: Backend) -> None:
    store.enqueue([build_record(id=id) for id in "dacb"])

    assert ids_of(take(store, limit=4)) == list("dacb")


def test_an_enqueue_of_nothing_answers_nothing(store: Backend) -> None:
    assert store.enqueue([]) == []


def test_a_job_without_a_bound_on_attempts_is_tried_for_ever(store: Backend, clock: Clock) -> None:
    store.enqueue([build_record(id="a", max_attempts=None)])

    for _ in range(30):
        settle(store, build_failure(take_one(store)))
        clock.advance(100)

    assert (job_of(store, "a").state, job_of(store, "a").attempts) == (State.QUEUED, 30)


def test_a_job_without_a_bound_on_attempts_still_fails_by_its_crashes(store: Backend, clock: Clock) -> None:
    store.enqueue([build_record(id="a", max_attempts=None, max_crashes=2)])

    for _ in range(2):
        take_one(store, lease=1)
        clock.advance(1)
    store.reap()

    assert job_of(store, "a").state is State.FAILED


def test_a_crash_in_the_last_attempt_fails_the_job(store: Backend, clock: Clock) -> None:
    store.enqueue([build_record(id="a", max_attempts=1, max_crashes=9)])
    take_one(store, lease=1)
    clock.advance(1)

    (reaped,) = store.reap()

    assert reaped.state is State.FAILED
    assert job_of(store, "a").crashes == 1
