"""A late worker never overwrites the one that took over."""

import pytest

from tenure.backends.protocol import Claiming
from tenure.core.job import Progress, State
from tenure.core.operations import Extension, Hold, Holding, Move
from tenure.testing import Clock
from tenure.testing.conformance.building import (
    ENDINGS,
    GivenJobs,
    Taken,
    completed,
    extend,
    job_of,
    released,
    settle,
    take_one,
)

FORGERIES = {
    "an older fence": lambda hold: Hold(id=hold.id, fence=hold.fence - 1, token=hold.token),
    "a later fence": lambda hold: Hold(id=hold.id, fence=hold.fence + 1, token=hold.token),
    "another token": lambda hold: Hold(id=hold.id, fence=hold.fence, token="another"),
}


@pytest.mark.parametrize("ending", ENDINGS)
def test_a_worker_that_was_taken_over_cannot_settle(
    store: Claiming, given_jobs: GivenJobs, clock: Clock, ending: str
) -> None:
    given_jobs(1)
    late = take_one(store, worker="w1", lease=10)
    clock.advance(10)
    current = take_one(store, worker="w2")

    landed = settle(store, ENDINGS[ending](late))

    assert not landed
    assert job_of(store, late.id) == current.job


@pytest.mark.parametrize("ending", ENDINGS)
def test_a_worker_that_claims_its_own_expired_job_again_cannot_settle_the_old_claim(
    store: Claiming, given_jobs: GivenJobs, clock: Clock, ending: str
) -> None:
    given_jobs(1)
    late = take_one(store, worker="same", lease=10)
    clock.advance(10)
    current = take_one(store, worker="same")

    landed = settle(store, ENDINGS[ending](late))

    assert not landed
    assert job_of(store, late.id) == current.job


def test_a_worker_that_claims_its_own_expired_job_again_cannot_extend_the_old_claim(
    store: Claiming, given_jobs: GivenJobs, clock: Clock
) -> None:
    given_jobs(1)
    late = take_one(store, worker="same", lease=10)
    clock.advance(10)
    current = take_one(store, worker="same")

    extension = Extension(hold=late.hold, lease=600, progress=Progress(done=1))

    assert store.extend([extension]) == [Holding.LOST]
    assert job_of(store, late.id) == current.job


@pytest.mark.parametrize("ending", ENDINGS)
def test_a_worker_whose_claim_was_reaped_cannot_settle(
    store: Claiming, given_jobs: GivenJobs, clock: Clock, ending: str
) -> None:
    given_jobs(1)
    late = take_one(store, lease=10)
    clock.advance(10)
    store.reap()
    before = job_of(store, late.id)

    landed = settle(store, ENDINGS[ending](late))

    assert not landed
    assert job_of(store, late.id) == before


@pytest.mark.parametrize("ending", ENDINGS)
@pytest.mark.parametrize("forgery", FORGERIES)
def test_nobody_settles_with_a_wrong_fence_or_token(
    store: Claiming, given_jobs: GivenJobs, ending: str, forgery: str
) -> None:
    given_jobs(1)
    settle(store, released(take_one(store)))
    current = take_one(store)
    forged = Taken(current.job, FORGERIES[forgery](current.hold))

    landed = settle(store, ENDINGS[ending](forged))

    assert not landed
    assert job_of(store, current.id) == current.job


@pytest.mark.parametrize("forgery", FORGERIES)
def test_nobody_extends_with_a_wrong_fence_or_token(store: Claiming, given_jobs: GivenJobs, forgery: str) -> None:
    given_jobs(1)
    settle(store, released(take_one(store)))
    current = take_one(store)

    assert extend(store, FORGERIES[forgery](current.hold), 600) is Holding.LOST
    assert job_of(store, current.id) == current.job


@pytest.mark.parametrize("ending", ENDINGS)
def test_a_worker_that_was_taken_over_cannot_settle_what_the_other_completed(
    store: Claiming, given_jobs: GivenJobs, clock: Clock, ending: str
) -> None:
    given_jobs(1)
    late = take_one(store, lease=10)
    clock.advance(10)
    settle(store, completed(take_one(store, worker="w2"), "in time"))
    before = job_of(store, late.id)

    landed = settle(store, ENDINGS[ending](late))

    assert not landed
    assert job_of(store, late.id) == before


@pytest.mark.parametrize("ending", ENDINGS)
@pytest.mark.parametrize("forgery", FORGERIES)
def test_nobody_is_told_that_an_ending_of_another_was_his(
    store: Claiming, given_jobs: GivenJobs, ending: str, forgery: str
) -> None:
    given_jobs(1)
    taken = take_one(store)
    settle(store, ENDINGS[ending](taken))
    forged = Taken(taken.job, FORGERIES[forgery](taken.hold))

    assert not settle(store, ENDINGS[ending](forged))


def test_a_completed_job_cannot_be_extended(store: Claiming, given_jobs: GivenJobs) -> None:
    given_jobs(1)
    taken = take_one(store)
    settle(store, completed(taken))

    assert extend(store, taken.hold) is Holding.LOST
    assert job_of(store, taken.id).state is State.COMPLETED


def test_an_old_claim_cannot_settle_a_job_that_an_operator_retried(store: Claiming, given_jobs: GivenJobs) -> None:
    given_jobs(1)
    old = take_one(store)
    store.move([old.id], Move.CANCEL)
    settle(store, released(old))
    store.move([old.id], Move.RETRY)
    current = take_one(store)

    assert current.job.fence == old.job.fence + 1
    assert not settle(store, completed(old))
    assert job_of(store, old.id) == current.job
