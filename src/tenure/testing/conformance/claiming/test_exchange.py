"""Settling and claiming in one round trip."""

from tenure.backends.protocol import Claiming
from tenure.core.job import State
from tenure.testing.conformance.building import (
    GivenJobs,
    build_completion,
    build_release,
    ids_of,
    job_of,
    request,
    settle,
    take,
    take_one,
)


def test_an_exchange_settles_and_then_claims(store: Claiming, given_jobs: GivenJobs) -> None:
    ids = given_jobs(4)
    first, second = take(store, limit=2)

    landed, claimed = store.exchange([build_completion(first), build_completion(second)], request(limit=5))

    assert landed == [True, True]
    assert ids_of(claimed.jobs) == ids[2:]
    assert store.stats().total("completed") == 2


def test_what_an_exchange_gives_back_it_may_claim(store: Claiming, given_jobs: GivenJobs) -> None:
    given_jobs(1)
    taken = take_one(store, worker="w1")

    _, claimed = store.exchange([build_release(taken)], request(worker="w2"))

    (job,) = claimed.jobs
    assert (job.id, job.worker, job.fence) == (taken.id, "w2", 2)


def test_a_lost_settlement_does_not_keep_an_exchange_from_claiming(store: Claiming, given_jobs: GivenJobs) -> None:
    ids = given_jobs(2)
    stale = take_one(store)
    settle(store, build_completion(stale))

    landed, claimed = store.exchange([build_release(stale)], request())

    assert landed == [False]
    assert ids_of(claimed.jobs) == ids[1:]
    assert job_of(store, stale.id).state is State.COMPLETED


def test_an_exchange_sent_again_changes_nothing_twice(store: Claiming, given_jobs: GivenJobs) -> None:
    given_jobs(3)
    settlements, asked = [build_completion(take_one(store), "done")], request()

    first = store.exchange(settlements, asked)
    again = store.exchange(settlements, asked)

    assert again == first
    assert store.stats().total("running") == 1


def test_an_exchange_of_nothing_is_a_claim(store: Claiming, given_jobs: GivenJobs) -> None:
    ids = given_jobs(1)

    landed, claimed = store.exchange([], request())

    assert landed == []
    assert ids_of(claimed.jobs) == ids
