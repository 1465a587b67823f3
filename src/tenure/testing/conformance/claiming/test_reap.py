"""Reaping the claims of dead holders."""

from tenure.backends.protocol import SWEEP, Claiming
from tenure.core.job import Ending, Outcome, State
from tenure.core.operations import Move, Reaped
from tenure.testing import Clock
from tenure.testing.conformance.building import GivenJobs, build_completion, extend, job_of, settle, take, take_one


def test_a_live_lease_is_never_reaped(store: Claiming, given_jobs: GivenJobs, clock: Clock) -> None:
    given_jobs(1)
    taken = take_one(store, lease=60)
    clock.advance(59.999)

    assert store.reap() == []
    assert job_of(store, taken.id) == taken.job


def test_a_lease_that_ran_out_is_reaped_and_the_crash_counted(
    store: Claiming, given_jobs: GivenJobs, clock: Clock
) -> None:
    given_jobs(1)
    taken = take_one(store, worker="w1", lease=60)
    clock.advance(60)

    reaped = store.reap()

    job = job_of(store, taken.id)
    assert reaped == [Reaped(id=taken.id, state=State.QUEUED, worker="w1", fence=1)]
    assert (job.state, job.attempts, job.crashes, job.fence) == (State.QUEUED, 1, 1, 1)
    assert (job.worker, job.leased_until) == (None, None)
    assert job.run_at == taken.job.run_at


def test_a_reaped_claim_stands_in_the_history_as_expired_with_who_held_it(
    store: Claiming, given_jobs: GivenJobs, clock: Clock
) -> None:
    given_jobs(1)
    taken = take_one(store, worker="w1", lease=60)
    clock.advance(75)
    store.reap()

    assert job_of(store, taken.id).history == (
        Ending(
            outcome=Outcome.EXPIRED,
            fence=1,
            token=taken.hold.token,
            worker="w1",
            claimed_at=taken.job.started_at,
            ended_at=clock.now,
            error="lease expired at 2026-01-01T12:01:00+00:00; "
            "worker 'w1' claimed the job at 2026-01-01T12:00:00+00:00",
        ),
    )


def test_a_reaped_claim_is_told_with_the_lease_as_it_was_last_extended(
    store: Claiming, given_jobs: GivenJobs, clock: Clock
) -> None:
    given_jobs(1)
    taken = take_one(store, worker="w1", lease=10)
    clock.advance(5)
    extend(store, taken.hold, 10)
    clock.advance(60)
    store.reap()

    (error,) = job_of(store, taken.id).errors
    assert error.startswith("lease expired at 2026-01-01T12:00:15+00:00; ")


def test_a_claim_taken_back_from_a_named_worker_says_that_it_was_said_to_be_dead(
    store: Claiming, given_jobs: GivenJobs
) -> None:
    given_jobs(1)
    taken = take_one(store, worker="dead")

    store.reap(worker="dead")

    assert job_of(store, taken.id).errors == [
        "worker 'dead' was reported dead; it claimed the job at 2026-01-01T12:00:00+00:00"
    ]


def test_an_extended_lease_is_not_reaped_when_the_first_would_have_run_out(
    store: Claiming, given_jobs: GivenJobs, clock: Clock
) -> None:
    given_jobs(1)
    taken = take_one(store, lease=10)
    clock.advance(5)
    extend(store, taken.hold, 10)
    clock.advance(9)

    assert store.reap() == []


def test_a_settled_job_is_not_reaped(store: Claiming, given_jobs: GivenJobs, clock: Clock) -> None:
    given_jobs(1)
    settle(store, build_completion(take_one(store, lease=10)))
    clock.advance(11)

    assert store.reap() == []


def test_a_job_fails_when_its_crashes_are_spent(store: Claiming, given_jobs: GivenJobs, clock: Clock) -> None:
    (id,) = given_jobs(1)
    for _ in range(3):
        take_one(store, lease=1)
        clock.advance(1)

    states = [each.state for each in store.reap()]

    job = job_of(store, id)
    assert states == [State.FAILED]
    assert (job.state, job.crashes, job.attempts, job.finished_at) == (State.FAILED, 3, 3, clock.now)
    assert take(store) == []


def test_a_job_that_kills_its_workers_cannot_loop_for_ever(
    store: Claiming, given_jobs: GivenJobs, clock: Clock
) -> None:
    given_jobs(1)
    runs = 0
    while take(store, lease=1):
        runs += 1
        clock.advance(1)

    assert runs == 3


def test_a_job_asked_to_cancel_is_cancelled_when_its_lease_runs_out(
    store: Claiming, given_jobs: GivenJobs, clock: Clock
) -> None:
    given_jobs(1)
    taken = take_one(store, lease=10)
    store.move([taken.id], Move.CANCEL)
    clock.advance(10)

    (reaped,) = store.reap()

    job = job_of(store, taken.id)
    assert reaped.state is State.CANCELLED
    assert (job.state, job.crashes, job.cancel_requested) == (State.CANCELLED, 1, False)
    assert job.history[-1].outcome is Outcome.EXPIRED


def test_a_reap_takes_no_more_than_its_limit_the_longest_expired_first(
    store: Claiming, given_jobs: GivenJobs, clock: Clock
) -> None:
    given_jobs(3)
    long, short, middle = take_one(store, lease=30), take_one(store, lease=10), take_one(store, lease=20)
    clock.advance(60)

    first = store.reap(limit=2)
    second = store.reap(limit=2)

    assert [each.id for each in first] == [short.id, middle.id]
    assert [each.id for each in second] == [long.id]


def test_naming_a_dead_worker_takes_back_all_that_it_holds_and_nothing_else(
    store: Claiming, given_jobs: GivenJobs
) -> None:
    given_jobs(4)
    dead = take(store, limit=2, worker="dead")
    alive = take(store, limit=2, worker="alive")

    reaped = store.reap(worker="dead")

    assert {each.id for each in reaped} == {each.id for each in dead}
    assert [job_of(store, each.id).crashes for each in dead] == [1, 1]
    assert [job_of(store, each.id) for each in alive] == [each.job for each in alive]


def test_naming_a_dead_worker_takes_back_no_more_than_the_limit(store: Claiming, given_jobs: GivenJobs) -> None:
    given_jobs(3)
    take(store, limit=3, worker="dead")

    assert [len(store.reap(2, worker="dead")) for _ in range(3)] == [2, 1, 0]


def test_naming_a_dead_worker_takes_back_first_what_runs_out_first(store: Claiming, given_jobs: GivenJobs) -> None:
    given_jobs(3)
    long = take_one(store, worker="dead", token="a", lease=30)
    short = take_one(store, worker="dead", token="b", lease=10)
    middle = take_one(store, worker="dead", token="c", lease=20)

    reaped = [each.id for _ in range(3) for each in store.reap(1, worker="dead")]

    assert reaped == [short.id, middle.id, long.id]


def test_naming_a_worker_that_holds_nothing_takes_back_nothing(
    store: Claiming, given_jobs: GivenJobs, clock: Clock
) -> None:
    given_jobs(1)
    take_one(store, worker="w1", lease=10)
    clock.advance(11)

    assert store.reap(worker="w2") == []


def test_one_claim_reaps_a_bounded_number_and_later_claims_take_over_the_rest(
    store: Claiming, given_jobs: GivenJobs, clock: Clock
) -> None:
    ids = given_jobs(SWEEP + 5)
    take(store, limit=1_000, lease=10)
    take(store, limit=1_000, lease=10)
    clock.advance(10)

    taken = take(store, worker="w2")
    running = store.stats().total("running")
    while some := take(store, limit=1_000):
        taken += some

    assert running >= 1 + 5
    assert sorted(each.id for each in taken) == sorted(ids)


def test_of_a_dead_workers_claims_only_those_that_it_started_have_crashed(
    store: Claiming, given_jobs: GivenJobs
) -> None:
    given_jobs(3)
    first, second, third = take(store, limit=3, worker="dead")

    reaped = store.reap(worker="dead", started=[second.id])

    assert sorted(each.id for each in reaped) == sorted([first.id, second.id, third.id])
    found = [job_of(store, each.id) for each in (first, second, third)]
    assert [(job.state, job.attempts, job.crashes) for job in found] == [
        (State.QUEUED, 0, 0),
        (State.QUEUED, 1, 1),
        (State.QUEUED, 0, 0),
    ]
    assert [job.history[0].outcome for job in found] == [Outcome.RELEASED, Outcome.EXPIRED, Outcome.RELEASED]
    assert not settle(store, build_completion(first))
