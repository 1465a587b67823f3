"""Extending leases."""

from datetime import timedelta

from tenure.backends.protocol import Claiming
from tenure.core.job import Progress
from tenure.core.operations import Extension, Hold, HoldStatus, Move
from tenure.testing import Clock
from tenure.testing.conformance.building import GivenJobs, build_completion, extend, job_of, settle, take, take_one


def test_a_holder_prolongs_its_lease_from_now_on(store: Claiming, given_jobs: GivenJobs, clock: Clock) -> None:
    given_jobs(1)
    taken = take_one(store, lease=60)
    clock.advance(40)

    assert extend(store, taken.hold, 60) is HoldStatus.HELD
    assert job_of(store, taken.id).leased_until == clock.now + timedelta(seconds=60)


def test_a_prolonged_lease_is_not_taken_over(store: Claiming, given_jobs: GivenJobs, clock: Clock) -> None:
    given_jobs(1)
    taken = take_one(store, lease=60)
    clock.advance(40)
    extend(store, taken.hold, 60)
    clock.advance(40)

    assert take(store, worker="w2") == []


def test_a_prolonged_lease_runs_out_in_the_end(store: Claiming, given_jobs: GivenJobs, clock: Clock) -> None:
    given_jobs(1)
    taken = take_one(store, lease=60)
    extend(store, taken.hold, 90)
    clock.advance(90)

    assert take_one(store, worker="w2").id == taken.id


def test_an_extension_never_shortens_a_lease(store: Claiming, given_jobs: GivenJobs) -> None:
    given_jobs(1)
    taken = take_one(store, lease=600)

    assert extend(store, taken.hold, 5) is HoldStatus.HELD
    assert job_of(store, taken.id).leased_until == taken.job.leased_until


def test_a_lease_that_ran_out_but_was_not_reaped_may_be_extended(
    store: Claiming, given_jobs: GivenJobs, clock: Clock
) -> None:
    given_jobs(1)
    taken = take_one(store, lease=60)
    clock.advance(61)

    assert extend(store, taken.hold, 60) is HoldStatus.HELD
    assert take(store, worker="w2") == []


def test_progress_is_shown_while_the_job_runs(store: Claiming, given_jobs: GivenJobs) -> None:
    given_jobs(1)
    taken = take_one(store)
    progress = Progress(done=3, of=10, note="three of ten")

    store.extend([Extension(hold=taken.hold, lease=60, progress=progress)])

    assert job_of(store, taken.id).progress == progress


def test_an_extension_without_progress_keeps_what_was_shown(store: Claiming, given_jobs: GivenJobs) -> None:
    given_jobs(1)
    taken = take_one(store)
    store.extend([Extension(hold=taken.hold, lease=60, progress=Progress(done=0.5))])

    extend(store, taken.hold)

    assert job_of(store, taken.id).progress == Progress(done=0.5)


def test_an_extension_tells_the_holder_that_cancelling_was_asked_for(store: Claiming, given_jobs: GivenJobs) -> None:
    given_jobs(1)
    taken = take_one(store, lease=10)
    store.move([taken.id], Move.CANCEL)

    assert extend(store, taken.hold, 60) is HoldStatus.CANCEL_REQUESTED


def test_an_extension_prolongs_the_lease_of_a_job_asked_to_cancel(
    store: Claiming, given_jobs: GivenJobs, clock: Clock
) -> None:
    given_jobs(1)
    taken = take_one(store, lease=10)
    store.move([taken.id], Move.CANCEL)
    extend(store, taken.hold, 60)
    clock.advance(59)

    assert store.reap() == []


def test_a_lost_hold_costs_its_neighbours_nothing(store: Claiming, given_jobs: GivenJobs, clock: Clock) -> None:
    given_jobs(3)
    first, second, third = take(store, limit=3, lease=10)
    settle(store, build_completion(second))
    clock.advance(5)

    answers = store.extend([Extension(hold=each.hold, lease=60) for each in (first, second, third)])

    assert answers == [HoldStatus.HELD, HoldStatus.LOST, HoldStatus.HELD]
    assert job_of(store, third.id).leased_until == clock.now + timedelta(seconds=60)


def test_a_job_that_is_not_there_is_lost(store: Claiming) -> None:
    assert extend(store, Hold(id="nobody", fence=1, token="t")) is HoldStatus.LOST


def test_an_extension_of_nothing_answers_nothing(store: Claiming) -> None:
    assert store.extend([]) == []
