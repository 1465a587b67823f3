"""Claiming jobs."""

from datetime import timedelta

from tenure.backends.protocol import Claiming
from tenure.core.job import Progress, State
from tenure.core.operations import Extension
from tenure.testing import Clock
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


def test_an_empty_store_yields_no_claim(store: Claiming) -> None:
    assert take(store) == []


def test_a_claim_shows_the_job_running_and_leased_to_the_worker(
    store: Claiming, given_jobs: GivenJobs, clock: Clock
) -> None:
    (id,) = given_jobs(1)

    job = take_one(store, worker="w7", lease=30).job

    assert job.id == id
    assert job.state is State.RUNNING
    assert job.worker == "w7"
    assert job.leased_until == clock.now + timedelta(seconds=30)
    assert job.started_at == clock.now


def test_the_job_is_stored_as_the_claim_showed_it(store: Claiming, given_jobs: GivenJobs) -> None:
    given_jobs(1)

    job = take_one(store).job

    assert job_of(store, job.id) == job


def test_a_claimed_job_is_not_claimed_again(store: Claiming, given_jobs: GivenJobs) -> None:
    given_jobs(1)
    take_one(store, worker="w1")

    assert take(store, worker="w2") == []


def test_a_claim_takes_no_more_than_its_limit(store: Claiming, given_jobs: GivenJobs) -> None:
    given_jobs(5)

    taken = take(store, limit=3)

    assert len(taken) == 3
    assert store.stats().total("running") == 3
    assert store.stats().total("due") == 2


def test_a_claim_takes_less_than_its_limit_when_less_is_due(store: Claiming, given_jobs: GivenJobs) -> None:
    ids = given_jobs(2)

    assert ids_of(take(store, limit=1_000)) == ids


def test_equal_jobs_are_claimed_in_enqueue_order(store: Claiming, given_jobs: GivenJobs) -> None:
    ids = given_jobs(20)

    assert ids_of(take(store, limit=20)) == ids


def test_batches_follow_each_other_in_enqueue_order(store: Claiming, given_jobs: GivenJobs) -> None:
    ids = given_jobs(20)

    assert ids_of([*take(store, 7), *take(store, 7), *take(store, 7)]) == ids


def test_each_claim_raises_fence_and_attempts_by_one(store: Claiming, given_jobs: GivenJobs) -> None:
    given_jobs(1)
    before = take_one(store).job
    store.reap(worker="w1")

    after = take_one(store).job

    assert (before.fence, before.attempts) == (1, 1)
    assert (after.fence, after.attempts) == (2, 2)


def test_the_fence_rises_even_when_the_attempt_was_given_back(store: Claiming, given_jobs: GivenJobs) -> None:
    given_jobs(1)
    first = take_one(store)
    settle(store, build_release(first))

    second = take_one(store)

    assert second.job.attempts == first.job.attempts
    assert second.job.fence == first.job.fence + 1


def test_a_claim_shows_when_it_was_made_not_when_the_first_was(
    store: Claiming, given_jobs: GivenJobs, clock: Clock
) -> None:
    given_jobs(1)
    settle(store, build_release(take_one(store)))
    clock.advance(7)

    assert take_one(store).job.started_at == clock.now


def test_a_lease_that_has_not_run_out_is_not_taken_over(store: Claiming, given_jobs: GivenJobs, clock: Clock) -> None:
    given_jobs(1)
    take_one(store, lease=60)
    clock.advance(59.999)

    assert take(store, worker="w2") == []


def test_a_lease_that_ran_out_is_taken_over_by_the_next_claim(
    store: Claiming, given_jobs: GivenJobs, clock: Clock
) -> None:
    (id,) = given_jobs(1)
    take_one(store, worker="w1", lease=60)
    clock.advance(60)

    job = take_one(store, worker="w2").job

    assert job.id == id
    assert job.worker == "w2"
    assert (job.fence, job.attempts, job.crashes) == (2, 2, 1)


def test_a_taken_over_job_keeps_its_place_in_the_order(store: Claiming, given_jobs: GivenJobs, clock: Clock) -> None:
    ids = given_jobs(3)
    take_one(store, lease=10)
    clock.advance(10)

    assert ids_of(take(store, limit=3)) == ids


def test_a_new_claim_does_not_show_the_progress_of_the_last(store: Claiming, given_jobs: GivenJobs) -> None:
    given_jobs(1)
    first = take_one(store)
    store.extend([Extension(hold=first.hold, lease=60, progress=Progress(done=9, of=10))])
    settle(store, build_release(first))

    again = take_one(store)
    assert again.job.progress is None
    assert job_of(store, again.id).progress is None


def test_a_claim_sent_again_returns_the_same_claims_in_the_same_order(store: Claiming, given_jobs: GivenJobs) -> None:
    given_jobs(5)
    asked = request(limit=3)

    first = store.claim(asked).jobs
    again = store.claim(asked).jobs

    assert again == first
    assert store.stats().total("running") == 3


def test_a_claim_sent_again_returns_only_what_is_still_held(store: Claiming, given_jobs: GivenJobs) -> None:
    ids = given_jobs(3)
    first, *_ = take(store, limit=3, token="same")
    settle(store, build_completion(first))

    assert ids_of(take(store, limit=3, token="same")) == ids[1:]


def test_a_claim_sent_again_changes_nothing_even_for_leases_that_ran_out(
    store: Claiming, given_jobs: GivenJobs, clock: Clock
) -> None:
    given_jobs(1)
    asked = request(lease=10)
    (before,) = store.claim(asked).jobs
    clock.advance(11)

    (after,) = store.claim(asked).jobs

    assert after == before


def test_the_hint_of_an_answer_may_be_passed_back(store: Claiming, given_jobs: GivenJobs) -> None:
    ids = given_jobs(4)
    first = store.claim(request(limit=2))

    second = store.claim(request(limit=2, hint=first.hint))

    assert ids_of([*first.jobs, *second.jobs]) == ids
