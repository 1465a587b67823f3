"""Retrying and cancelling jobs as an operator."""

from tenure.backends.protocol import Claiming
from tenure.core.job import Ending, Outcome, Progress, State
from tenure.core.operations import Extension, Move, Moved, Refusal
from tenure.testing import Clock
from tenure.testing.conformance.building import (
    GivenJobs,
    build_completion,
    build_failure,
    build_release,
    job_of,
    settle,
    take,
    take_one,
)


def test_a_queued_job_is_cancelled_at_once(store: Claiming, given_jobs: GivenJobs, clock: Clock) -> None:
    (id,) = given_jobs(1)

    moved = store.move([id], Move.CANCEL, "wrong address")

    job = job_of(store, id)
    assert moved == [Moved(id=id, state=State.CANCELLED)]
    assert (job.state, job.finished_at) == (State.CANCELLED, clock.now)
    assert take(store) == []


def test_a_running_job_is_asked_to_cancel_and_goes_on(store: Claiming, given_jobs: GivenJobs) -> None:
    given_jobs(1)
    taken = take_one(store)

    moved = store.move([taken.id], Move.CANCEL)

    job = job_of(store, taken.id)
    assert moved == [Moved(id=taken.id, state=State.RUNNING)]
    assert (job.state, job.cancel_requested, job.worker) == (State.RUNNING, True, "w1")


def test_a_running_job_is_asked_to_cancel_only_once(store: Claiming, given_jobs: GivenJobs) -> None:
    given_jobs(1)
    taken = take_one(store)
    store.move([taken.id], Move.CANCEL)

    moved = store.move([taken.id], Move.CANCEL)

    assert moved == [Moved(id=taken.id, state=State.RUNNING, refusal=Refusal.CANCEL_REQUESTED)]
    assert len(job_of(store, taken.id).history) == 1


def test_a_finished_job_is_not_cancelled(store: Claiming, given_jobs: GivenJobs) -> None:
    given_jobs(1)
    taken = take_one(store)
    settle(store, build_completion(taken))

    moved = store.move([taken.id], Move.CANCEL)

    assert moved == [Moved(id=taken.id, state=State.COMPLETED, refusal=Refusal.STATE)]
    assert job_of(store, taken.id).state is State.COMPLETED


def test_retry_queues_a_failed_job_now_with_fresh_attempts(
    store: Claiming, given_jobs: GivenJobs, clock: Clock
) -> None:
    given_jobs(1)
    taken = take_one(store)
    settle(store, build_failure(taken, final=True))
    clock.advance(5)

    moved = store.move([taken.id], Move.RETRY, "fixed the template")

    job = job_of(store, taken.id)
    assert moved == [Moved(id=taken.id, state=State.QUEUED)]
    assert (job.state, job.attempts, job.crashes, job.finished_at) == (State.QUEUED, 0, 0, None)
    assert job.run_at == clock.now
    assert job.fence == 1
    assert take_one(store).job.fence == 2


def test_retry_clears_the_crashes_as_well(store: Claiming, given_jobs: GivenJobs, clock: Clock) -> None:
    (id,) = given_jobs(1)
    for _ in range(3):
        take_one(store, lease=1)
        clock.advance(1)
    store.reap()

    store.move([id], Move.RETRY)

    assert job_of(store, id).crashes == 0


def test_retry_shows_no_progress_of_the_claim_before(store: Claiming, given_jobs: GivenJobs) -> None:
    given_jobs(1)
    taken = take_one(store)
    store.extend([Extension(hold=taken.hold, lease=60, progress=Progress(done=1))])
    settle(store, build_failure(taken, final=True))
    before = job_of(store, taken.id).progress
    store.move([taken.id], Move.RETRY)

    assert (before, job_of(store, taken.id).progress) == (Progress(done=1), None)


def test_retry_queues_a_cancelled_job(store: Claiming, given_jobs: GivenJobs) -> None:
    (id,) = given_jobs(1)
    store.move([id], Move.CANCEL)

    store.move([id], Move.RETRY)

    assert take_one(store).id == id


def test_retry_leaves_queued_running_and_completed_jobs_alone(store: Claiming, given_jobs: GivenJobs) -> None:
    ids = given_jobs(3)
    done, _ = take(store, limit=2)
    settle(store, build_completion(done))
    before = [job_of(store, id) for id in ids]

    moved = store.move(ids, Move.RETRY)

    assert [(each.state, each.refusal) for each in moved] == [
        (State.COMPLETED, Refusal.STATE),
        (State.RUNNING, Refusal.STATE),
        (State.QUEUED, Refusal.STATE),
    ]
    assert [job_of(store, id) for id in ids] == before


def test_a_move_and_its_reason_stand_in_the_history_and_not_among_the_errors(
    store: Claiming, given_jobs: GivenJobs, clock: Clock
) -> None:
    given_jobs(1)
    taken = take_one(store)
    settle(store, build_failure(taken, "boom", final=True))
    store.move([taken.id], Move.RETRY, "fixed")
    store.move([taken.id], Move.CANCEL)

    job = job_of(store, taken.id)
    assert job.history[1:] == (
        Ending(outcome=Outcome.OPERATOR, fence=1, ended_at=clock.now, error="retry: fixed"),
        Ending(outcome=Outcome.OPERATOR, fence=1, ended_at=clock.now, error="cancel"),
    )
    assert job.errors == ["boom"]


def test_each_job_of_several_gets_its_own_answer(store: Claiming, given_jobs: GivenJobs) -> None:
    first, second = given_jobs(2)
    settle(store, build_completion(take_one(store)))

    moved = store.move(["nobody", first, second], Move.CANCEL)

    assert moved == [
        Moved(id="nobody", state=None, refusal=Refusal.UNKNOWN),
        Moved(id=first, state=State.COMPLETED, refusal=Refusal.STATE),
        Moved(id=second, state=State.CANCELLED),
    ]
    assert [each.moved for each in moved] == [False, False, True]


def test_a_cancelled_job_that_is_retried_is_not_asked_to_cancel_any_more(
    store: Claiming, given_jobs: GivenJobs
) -> None:
    given_jobs(1)
    taken = take_one(store)
    store.move([taken.id], Move.CANCEL)
    settle(store, build_release(taken))
    store.move([taken.id], Move.RETRY)

    assert not take_one(store).job.cancel_requested
