"""Settling claims: the whole table of transitions."""

from datetime import timedelta

from tenure.backends.protocol import Claiming
from tenure.core import transitions
from tenure.core.job import HISTORY_KEPT, LIVE, Ending, Outcome, State
from tenure.core.operations import Hold, Move
from tenure.testing import Clock
from tenure.testing.conformance.building import (
    ENDINGS,
    GivenJobs,
    build_cancellation,
    build_completion,
    build_endings,
    build_failure,
    build_release,
    build_retry,
    build_snooze,
    job_of,
    jobs_of,
    settle,
    settle_each,
    take,
    take_each,
    take_one,
)

OTHERS = [name for name in ENDINGS if name != "complete"]


def test_complete_makes_the_job_completed_with_its_result(store: Claiming, given_jobs: GivenJobs, clock: Clock) -> None:
    given_jobs(1)
    taken = take_one(store, worker="w3")
    clock.advance(2)

    landed = settle(store, build_completion(taken, {"sum": [1, 2.5, "ä", None]}))

    job = job_of(store, taken.id)
    assert landed
    assert job.state is State.COMPLETED
    assert job.result == {"sum": [1, 2.5, "ä", None]}
    assert (job.attempts, job.crashes, job.fence) == (1, 0, 1)
    assert job.worker == "w3"
    assert job.finished_at == clock.now
    assert job.history == ()


def test_a_completed_job_is_never_claimed_again(store: Claiming, given_jobs: GivenJobs, clock: Clock) -> None:
    given_jobs(1)
    settle(store, build_completion(take_one(store)))
    clock.advance(86_400)

    assert take(store) == []


def test_a_result_too_long_to_be_kept_is_dropped_and_marked(store: Claiming, given_jobs: GivenJobs) -> None:
    given_jobs(1)
    taken = take_one(store)

    settle(store, build_completion(taken, "x" * 300_000))

    job = job_of(store, taken.id)
    assert (job.state, job.result, job.result_dropped) == (State.COMPLETED, None, True)


def test_fail_queues_the_job_again_after_the_back_off(store: Claiming, given_jobs: GivenJobs, clock: Clock) -> None:
    given_jobs(1)
    taken = take_one(store)

    settle(store, build_failure(taken, "no route"))

    job = job_of(store, taken.id)
    assert (job.state, job.attempts, job.crashes) == (State.QUEUED, 1, 0)
    assert job.run_at == clock.now + timedelta(seconds=10)
    assert job.errors == ["no route"]


def test_a_failed_job_waits_for_its_back_off_and_no_longer(
    store: Claiming, given_jobs: GivenJobs, clock: Clock
) -> None:
    given_jobs(1)
    settle(store, build_failure(take_one(store)))
    clock.advance(9.999)
    too_early = take(store)
    clock.advance(0.001)

    assert too_early == []
    assert take_one(store).job.attempts == 2


def test_fail_makes_the_job_failed_when_its_attempts_are_spent(
    store: Claiming, given_jobs: GivenJobs, clock: Clock
) -> None:
    (id,) = given_jobs(1)
    for _ in range(5):
        clock.advance(100)
        settle(store, build_failure(take_one(store)))
    clock.advance(86_400)

    job = job_of(store, id)
    assert (job.state, job.attempts) == (State.FAILED, 5)
    assert len(job.errors) == 5
    assert take(store) == []


def test_a_final_failure_fails_the_job_at_once(store: Claiming, given_jobs: GivenJobs, clock: Clock) -> None:
    given_jobs(1)
    taken = take_one(store)

    settle(store, build_failure(taken, final=True))

    job = job_of(store, taken.id)
    assert (job.state, job.attempts, job.finished_at) == (State.FAILED, 1, clock.now)


def test_retry_queues_the_job_again_after_its_own_delay(store: Claiming, given_jobs: GivenJobs, clock: Clock) -> None:
    given_jobs(1)
    taken = take_one(store)

    settle(store, build_retry(taken, 30, why="not yet"))

    job = job_of(store, taken.id)
    assert (job.state, job.attempts) == (State.QUEUED, 1)
    assert job.run_at == clock.now + timedelta(seconds=30)
    assert job.history[0].outcome is Outcome.RETRIED
    assert job.errors == ["not yet"]


def test_retry_without_a_delay_takes_the_back_off(store: Claiming, given_jobs: GivenJobs, clock: Clock) -> None:
    given_jobs(1)
    taken = take_one(store)

    settle(store, build_retry(taken))

    assert job_of(store, taken.id).run_at == clock.now + timedelta(seconds=10)


def test_retry_makes_the_job_failed_when_its_attempts_are_spent(store: Claiming, given_jobs: GivenJobs) -> None:
    (id,) = given_jobs(1)
    for _ in range(5):
        settle(store, build_retry(take_one(store), 0))

    assert job_of(store, id).state is State.FAILED


def test_snooze_gives_the_attempt_back_and_waits(store: Claiming, given_jobs: GivenJobs, clock: Clock) -> None:
    given_jobs(1)
    taken = take_one(store)

    settle(store, build_snooze(taken, 45))

    job = job_of(store, taken.id)
    assert (job.state, job.attempts, job.fence) == (State.QUEUED, 0, 1)
    assert job.run_at == clock.now + timedelta(seconds=45)
    assert job.errors == []


def test_release_gives_the_attempt_back_and_keeps_the_place(
    store: Claiming, given_jobs: GivenJobs, clock: Clock
) -> None:
    given_jobs(2)
    taken = take_one(store)
    clock.advance(5)

    settle(store, build_release(taken))

    job = job_of(store, taken.id)
    assert (job.state, job.attempts, job.fence) == (State.QUEUED, 0, 1)
    assert job.run_at == taken.job.run_at
    assert take_one(store).id == taken.id


def test_a_job_may_be_released_more_often_than_it_has_attempts(store: Claiming, given_jobs: GivenJobs) -> None:
    (id,) = given_jobs(1)
    for _ in range(20):
        settle(store, build_release(take_one(store)))

    job = job_of(store, id)
    assert (job.state, job.attempts, job.fence) == (State.QUEUED, 0, 20)


def test_cancel_by_the_holder_makes_the_job_cancelled(store: Claiming, given_jobs: GivenJobs, clock: Clock) -> None:
    given_jobs(1)
    taken = take_one(store)

    settle(store, build_cancellation(taken, "no longer wanted"))

    job = job_of(store, taken.id)
    assert (job.state, job.attempts, job.finished_at) == (State.CANCELLED, 1, clock.now)
    assert job.errors == ["no longer wanted"]


def test_no_ending_leaves_a_lease_behind(store: Claiming, given_jobs: GivenJobs) -> None:
    given_jobs(len(ENDINGS))
    taken = take_each(store, ENDINGS)

    settle_each(store, build_endings(taken))

    after = jobs_of(store, taken)
    assert [name for name, job in after.items() if job.state is State.RUNNING] == []
    assert {name: job.leased_until for name, job in after.items()} == dict.fromkeys(ENDINGS)
    assert {name: job.worker for name, job in after.items() if job.state is not State.COMPLETED} == dict.fromkeys(
        OTHERS
    )
    assert {name: job.finished_at is None for name, job in after.items()} == {
        name: job.state in LIVE for name, job in after.items()
    }
    assert store.stats().total("running") == 0


def test_every_ending_but_complete_adds_a_line_to_the_history(
    store: Claiming, given_jobs: GivenJobs, clock: Clock
) -> None:
    given_jobs(len(OTHERS))
    taken = take_each(store, OTHERS, worker="w5")
    clock.advance(3)
    settlements = build_endings(taken)

    settle_each(store, settlements)

    assert {name: job.history for name, job in jobs_of(store, taken).items()} == {
        name: (
            Ending(
                outcome=settlements[name].outcome,
                fence=1,
                token=each.hold.token,
                worker="w5",
                claimed_at=each.job.started_at,
                ended_at=clock.now,
                error=settlements[name].error,
            ),
        )
        for name, each in taken.items()
    }


def test_the_history_keeps_its_last_lines_and_the_number_of_the_others(store: Claiming, given_jobs: GivenJobs) -> None:
    (id,) = given_jobs(1)
    for _ in range(HISTORY_KEPT + 3):
        settle(store, build_release(take_one(store)))

    job = job_of(store, id)
    assert [ending.fence for ending in job.history] == list(range(4, HISTORY_KEPT + 4))
    assert job.history_dropped == 3


def test_a_job_asked_to_cancel_is_cancelled_by_every_other_ending(
    store: Claiming, given_jobs: GivenJobs, clock: Clock
) -> None:
    given_jobs(len(OTHERS))
    taken = take_each(store, OTHERS)
    store.move([each.id for each in taken.values()], Move.CANCEL, "stop it")

    landed = settle_each(store, build_endings(taken))

    after = jobs_of(store, taken)
    assert landed == dict.fromkeys(OTHERS, True)
    assert {name: (job.state, job.cancel_requested, job.finished_at) for name, job in after.items()} == dict.fromkeys(
        OTHERS, (State.CANCELLED, False, clock.now)
    )
    assert {name: job.run_at for name, job in after.items()} == {name: each.job.run_at for name, each in taken.items()}
    assert take(store, limit=len(OTHERS)) == []


def test_a_job_asked_to_cancel_may_still_complete(store: Claiming, given_jobs: GivenJobs) -> None:
    given_jobs(1)
    taken = take_one(store)
    store.move([taken.id], Move.CANCEL)

    landed = settle(store, build_completion(taken, 42))

    job = job_of(store, taken.id)
    assert landed
    assert (job.state, job.result, job.cancel_requested) == (State.COMPLETED, 42, False)


def test_a_holder_whose_lease_ran_out_but_was_not_reaped_may_still_settle(
    store: Claiming, given_jobs: GivenJobs, clock: Clock
) -> None:
    given_jobs(len(ENDINGS))
    taken = take_each(store, ENDINGS, lease=10)
    clock.advance(1_000)

    landed = settle_each(store, build_endings(taken))

    assert landed == dict.fromkeys(ENDINGS, True)


def test_a_settlement_sent_again_landed_and_changes_nothing_twice(
    store: Claiming, given_jobs: GivenJobs, clock: Clock
) -> None:
    given_jobs(len(ENDINGS))
    taken = take_each(store, ENDINGS)
    settlements = build_endings(taken)
    settle_each(store, settlements)
    before = jobs_of(store, taken)
    clock.advance(1)

    landed = settle_each(store, settlements)

    assert landed == dict.fromkeys(ENDINGS, True)
    assert jobs_of(store, taken) == before


def test_a_settlement_sent_again_after_the_next_claim_landed_and_leaves_that_claim_alone(
    store: Claiming, given_jobs: GivenJobs, clock: Clock
) -> None:
    given_jobs(len(OTHERS))
    taken = take_each(store, OTHERS)
    settlements = build_endings(taken)
    settle_each(store, settlements)
    store.move([each.id for each in taken.values()], Move.RETRY)
    clock.advance(100)
    newer = {each.id: each.job for each in take(store, limit=len(OTHERS), worker="w2")}

    landed = settle_each(store, settlements)

    assert landed == dict.fromkeys(OTHERS, True)
    assert jobs_of(store, taken) == {name: newer[each.id] for name, each in taken.items()}


def test_a_failing_job_in_a_batch_costs_its_neighbours_nothing(store: Claiming, given_jobs: GivenJobs) -> None:
    given_jobs(4)
    done, broken, stale, other = take(store, limit=4)
    store.settle([build_release(stale)])
    newer = take_one(store)

    answers = store.settle(
        [build_completion(done), build_failure(broken, final=True), build_completion(stale), build_completion(other)]
    )

    assert answers == [True, True, False, True]
    assert job_of(store, done.id).state is State.COMPLETED
    assert job_of(store, broken.id).state is State.FAILED
    assert job_of(store, stale.id) == newer.job
    assert job_of(store, other.id).state is State.COMPLETED


def test_only_the_first_of_two_endings_in_one_batch_lands(store: Claiming, given_jobs: GivenJobs) -> None:
    given_jobs(1)
    taken = take_one(store)

    answers = store.settle([build_completion(taken), build_failure(taken)])

    assert answers == [True, False]
    assert job_of(store, taken.id).state is State.COMPLETED


def test_a_job_that_is_not_there_is_lost(store: Claiming) -> None:
    assert not settle(store, transitions.build_completion(Hold(id="nobody", fence=1, token="t")))


def test_a_settlement_of_nothing_answers_nothing(store: Claiming) -> None:
    assert store.settle([]) == []


def test_a_settlement_that_stands_twice_in_a_request_landed_both_times_and_ends_the_claim_once(
    store: Claiming, given_jobs: GivenJobs
) -> None:
    given_jobs(len(ENDINGS))
    taken = take_each(store, ENDINGS)

    landed = {name: store.settle([ending, ending]) for name, ending in build_endings(taken).items()}

    assert landed == {name: [True, True] for name in ENDINGS}
    assert {name: len(job.history) for name, job in jobs_of(store, taken).items()} == {
        "complete": 0,
        **dict.fromkeys(OTHERS, 1),
    }
