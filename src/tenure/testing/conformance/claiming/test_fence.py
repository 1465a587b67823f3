"""A late worker never overwrites the result of the worker that took over the job."""

from collections.abc import Mapping
from itertools import product

from tenure.backends.protocol import Claiming
from tenure.core.job import Progress, State
from tenure.core.operations import Extension, Hold, HoldStatus, Move, Settlement
from tenure.testing import Clock
from tenure.testing.conformance.building import (
    ENDINGS,
    GivenJobs,
    Taken,
    as_claimed,
    build_completion,
    build_endings,
    build_release,
    extend,
    job_of,
    jobs_of,
    settle,
    settle_each,
    take,
    take_each,
    take_one,
)

NONE_LANDED = dict.fromkeys(ENDINGS, False)

FORGERIES = {
    "an older fence": lambda hold: Hold(id=hold.id, fence=hold.fence - 1, token=hold.token),
    "a later fence": lambda hold: Hold(id=hold.id, fence=hold.fence + 1, token=hold.token),
    "another token": lambda hold: Hold(id=hold.id, fence=hold.fence, token="another"),
}

FORGED_ENDINGS = list(product(ENDINGS, FORGERIES))


def forged_endings_of(taken: Mapping[tuple[str, str], Taken]) -> dict[tuple[str, str], Settlement]:
    """Return the settlement of each claim with a forged hold; the name of the claim selects both."""
    return {
        (ending, forgery): ENDINGS[ending](Taken(each.job, FORGERIES[forgery](each.hold)))
        for (ending, forgery), each in taken.items()
    }


def test_a_worker_that_was_taken_over_cannot_settle(store: Claiming, given_jobs: GivenJobs, clock: Clock) -> None:
    given_jobs(len(ENDINGS))
    late = take_each(store, ENDINGS, worker="w1", lease=10)
    clock.advance(10)
    current = take_each(store, ENDINGS, worker="w2")

    landed = settle_each(store, build_endings(late))

    assert landed == NONE_LANDED
    assert jobs_of(store, late) == as_claimed(current)


def test_a_worker_that_claims_its_own_expired_job_again_cannot_settle_the_old_claim(
    store: Claiming, given_jobs: GivenJobs, clock: Clock
) -> None:
    given_jobs(len(ENDINGS))
    late = take_each(store, ENDINGS, worker="same", lease=10)
    clock.advance(10)
    current = take_each(store, ENDINGS, worker="same")

    landed = settle_each(store, build_endings(late))

    assert landed == NONE_LANDED
    assert jobs_of(store, late) == as_claimed(current)


def test_a_worker_that_claims_its_own_expired_job_again_cannot_extend_the_old_claim(
    store: Claiming, given_jobs: GivenJobs, clock: Clock
) -> None:
    given_jobs(1)
    late = take_one(store, worker="same", lease=10)
    clock.advance(10)
    current = take_one(store, worker="same")

    extension = Extension(hold=late.hold, lease=600, progress=Progress(done=1))

    assert store.extend([extension]) == [HoldStatus.LOST]
    assert job_of(store, late.id) == current.job


def test_a_worker_whose_claim_was_reaped_cannot_settle(store: Claiming, given_jobs: GivenJobs, clock: Clock) -> None:
    given_jobs(len(ENDINGS))
    late = take_each(store, ENDINGS, lease=10)
    clock.advance(10)
    store.reap()
    before = jobs_of(store, late)

    landed = settle_each(store, build_endings(late))

    assert landed == NONE_LANDED
    assert jobs_of(store, late) == before


def test_nobody_settles_with_a_wrong_fence_or_token(store: Claiming, given_jobs: GivenJobs) -> None:
    number = len(given_jobs(len(FORGED_ENDINGS)))
    store.settle([build_release(each) for each in take(store, limit=number)])
    current = take_each(store, FORGED_ENDINGS)

    landed = settle_each(store, forged_endings_of(current))

    assert landed == dict.fromkeys(FORGED_ENDINGS, False)
    assert jobs_of(store, current) == as_claimed(current)


def test_nobody_extends_with_a_wrong_fence_or_token(store: Claiming, given_jobs: GivenJobs) -> None:
    number = len(given_jobs(len(FORGERIES)))
    store.settle([build_release(each) for each in take(store, limit=number)])
    current = take_each(store, FORGERIES)

    answers = {name: extend(store, FORGERIES[name](each.hold), 600) for name, each in current.items()}

    assert answers == dict.fromkeys(FORGERIES, HoldStatus.LOST)
    assert jobs_of(store, current) == as_claimed(current)


def test_a_worker_that_was_taken_over_cannot_settle_what_the_other_completed(
    store: Claiming, given_jobs: GivenJobs, clock: Clock
) -> None:
    given_jobs(len(ENDINGS))
    late = take_each(store, ENDINGS, lease=10)
    clock.advance(10)
    current = take_each(store, ENDINGS, worker="w2")
    store.settle([build_completion(each, "in time") for each in current.values()])
    before = jobs_of(store, late)

    landed = settle_each(store, build_endings(late))

    assert landed == NONE_LANDED
    assert jobs_of(store, late) == before


def test_nobody_is_told_that_an_ending_of_another_was_his(store: Claiming, given_jobs: GivenJobs) -> None:
    given_jobs(len(FORGED_ENDINGS))
    taken = take_each(store, FORGED_ENDINGS)
    store.settle([ENDINGS[ending](each) for (ending, _), each in taken.items()])

    landed = settle_each(store, forged_endings_of(taken))

    assert landed == dict.fromkeys(FORGED_ENDINGS, False)


def test_a_completed_job_cannot_be_extended(store: Claiming, given_jobs: GivenJobs) -> None:
    given_jobs(1)
    taken = take_one(store)
    settle(store, build_completion(taken))

    assert extend(store, taken.hold) is HoldStatus.LOST
    assert job_of(store, taken.id).state is State.COMPLETED


def test_an_old_claim_cannot_settle_a_job_that_an_operator_retried(store: Claiming, given_jobs: GivenJobs) -> None:
    given_jobs(1)
    old = take_one(store)
    store.move([old.id], Move.CANCEL)
    settle(store, build_release(old))
    store.move([old.id], Move.RETRY)
    current = take_one(store)

    assert current.job.fence == old.job.fence + 1
    assert not settle(store, build_completion(old))
    assert job_of(store, old.id) == current.job
