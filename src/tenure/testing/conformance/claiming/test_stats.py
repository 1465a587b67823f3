"""Counting jobs by state."""

from tenure.backends.protocol import Claiming
from tenure.core.operations import Move
from tenure.testing import Clock
from tenure.testing.conformance.building import GivenJobs, build_completion, build_failure, settle, take, take_one


def test_an_empty_store_has_no_rows(store: Claiming) -> None:
    assert store.stats().rows == ()


def test_each_job_is_counted_in_the_state_that_it_is_in(store: Claiming, given_jobs: GivenJobs) -> None:
    ids = given_jobs(7)
    done, broken, waiting, _ = take(store, limit=4)
    store.settle([build_completion(done), build_failure(broken, final=True), build_failure(waiting)])
    store.move([ids[4]], Move.CANCEL)

    (row,) = store.stats().rows

    assert (row.due, row.scheduled, row.running) == (2, 1, 1)
    assert (row.completed, row.failed, row.cancelled) == (1, 1, 1)


def test_a_scheduled_job_is_counted_as_due_when_its_time_has_come(
    store: Claiming, given_jobs: GivenJobs, clock: Clock
) -> None:
    given_jobs(1)
    settle(store, build_failure(take_one(store)))
    before = store.stats()
    clock.advance(10)
    after = store.stats()

    assert (before.total("due"), before.total("scheduled")) == (0, 1)
    assert (after.total("due"), after.total("scheduled")) == (1, 0)


def test_the_oldest_due_job_is_told(store: Claiming, given_jobs: GivenJobs, clock: Clock) -> None:
    given_jobs(2)
    first = take_one(store)
    settle(store, build_failure(first))
    clock.advance(100)

    (row,) = store.stats().rows

    assert row.oldest_due_at == first.job.run_at


def test_nothing_due_has_no_oldest(store: Claiming, given_jobs: GivenJobs) -> None:
    given_jobs(1)
    take_one(store)

    (row,) = store.stats().rows

    assert row.oldest_due_at is None
