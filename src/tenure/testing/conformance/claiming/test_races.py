"""Races: real threads, with separate handles to the same store."""

import threading
from collections import Counter
from functools import partial

import pytest

from tenure.backends.protocol import Claiming
from tenure.client import settling
from tenure.core.job import State
from tenure.core.operations import BUSY, HoldStatus, Move
from tenure.testing import ClaimingHarness, Clock
from tenure.testing.conformance.building import (
    Taken,
    as_taken,
    build_cancellation,
    build_completion,
    build_failure,
    extend,
    job_of,
    request,
    settle,
    take,
    take_one,
)
from tenure.testing.conformance.racing import frequent_thread_switches, run_both_concurrently, run_concurrently

WORKERS = 10

ONE_WINS = [0] * (WORKERS - 1) + [1]


def drain(store: Claiming, worker: str, limit: int) -> list[str]:
    """Claim and complete until no job is left; return the claimed jobs."""
    claimed: list[str] = []
    while taken := take(store, limit=limit, worker=worker):
        claimed += [each.id for each in taken]
        assert all(settling.settle(store, [build_completion(each) for each in taken]))
    return claimed


def drain_by_exchange(store: Claiming, worker: str) -> list[str]:
    claimed: list[str] = []
    held: list[Taken] = []
    while True:
        asked = request(limit=3, worker=worker)
        completions = [build_completion(each) for each in held]
        settled, answer = store.exchange(completions, asked)
        busy = [completion for completion, each in zip(completions, settled, strict=True) if each is BUSY]
        assert all(each for each in settled if each is not BUSY)
        assert all(settling.settle(store, busy))
        held = [as_taken(job, asked) for job in answer.jobs]
        if not held:
            return claimed
        claimed += [each.id for each in held]


def test_of_ten_workers_and_one_job_one_wins(harness: ClaimingHarness) -> None:
    stores = [harness.open() for _ in range(WORKERS)]

    for _ in range(harness.rounds // 2):
        harness.given_jobs_by(stores[0], 1)
        taken = run_concurrently([partial(take, store) for store in stores])

        assert sorted(map(len, taken)) == ONE_WINS


@pytest.mark.parametrize("limit", [1, 7])
def test_of_ten_workers_each_job_is_claimed_once_and_none_is_left(harness: ClaimingHarness, limit: int) -> None:
    """Slow: ten threads contend for each job."""
    ids = harness.given_jobs(10 * harness.rounds)
    stores = [harness.open() for _ in range(WORKERS)]

    claimed = run_concurrently([partial(drain, store, f"w{n}", limit) for n, store in enumerate(stores)])

    assert Counter(id for each in claimed for id in each) == Counter(ids)
    assert stores[0].stats().total("completed") == len(ids)


def test_of_ten_workers_that_exchange_each_job_is_claimed_once(harness: ClaimingHarness) -> None:
    ids = harness.given_jobs(5 * harness.rounds)
    stores = [harness.open() for _ in range(WORKERS)]

    claimed = run_concurrently([partial(drain_by_exchange, store, f"w{n}") for n, store in enumerate(stores)])

    assert Counter(id for each in claimed for id in each) == Counter(ids)


def test_of_ten_workers_after_an_expired_lease_one_takes_over(harness: ClaimingHarness, clock: Clock) -> None:
    stores = [harness.open(clock) for _ in range(WORKERS)]

    for _ in range(harness.rounds // 2):
        harness.given_jobs_by(stores[0], 1, clock)
        late = take_one(stores[0], lease=10)
        clock.advance(10)
        taken = run_concurrently([partial(take, store) for store in stores])
        winner = next(each for some in taken for each in some)

        assert sorted(map(len, taken)) == ONE_WINS
        assert winner.job.crashes == 1
        assert not settle(stores[0], build_completion(late))
        assert settle(stores[0], build_completion(winner))


def test_an_extension_and_a_reap_at_once_never_both_win(harness: ClaimingHarness, clock: Clock) -> None:
    first, second = harness.open(clock), harness.open(clock)

    for _ in range(harness.rounds):
        harness.given_jobs_by(first, 1, clock)
        taken = take_one(first, lease=10)
        clock.advance(10)
        held, reaped = run_both_concurrently(partial(extend, first, taken.hold), second.reap)
        after = job_of(first, taken.id).state

        assert (held, len(reaped), after) in {
            (HoldStatus.HELD, 0, State.RUNNING),
            (HoldStatus.LOST, 1, State.QUEUED),
        }
        first.reap(worker="w1")
        first.move([taken.id], Move.CANCEL)


def test_a_cancel_and_a_settlement_at_once_leave_the_job_cancelled(harness: ClaimingHarness, clock: Clock) -> None:
    first, second = harness.open(clock), harness.open(clock)

    for _ in range(harness.rounds):
        harness.given_jobs_by(first, 1, clock)
        taken = take_one(first)
        landed, moved = run_both_concurrently(
            partial(settle, first, build_failure(taken)), partial(second.move, [taken.id], Move.CANCEL)
        )

        assert landed
        assert moved[0].moved
        assert job_of(first, taken.id).state is State.CANCELLED


def test_a_cancel_and_a_completion_at_once_leave_the_job_completed(harness: ClaimingHarness) -> None:
    first, second = harness.open(), harness.open()

    for _ in range(harness.rounds):
        harness.given_jobs_by(first, 1)
        taken = take_one(first)
        landed, _ = run_both_concurrently(
            partial(settle, first, build_completion(taken)), partial(second.move, [taken.id], Move.CANCEL)
        )

        assert landed
        assert job_of(first, taken.id).state is State.COMPLETED


def test_two_endings_of_one_claim_at_once_never_both_land(harness: ClaimingHarness) -> None:
    first, second = harness.open(), harness.open()

    for _ in range(harness.rounds):
        harness.given_jobs_by(first, 1)
        taken = take_one(first)
        done, stopped = run_both_concurrently(
            partial(settle, first, build_completion(taken)), partial(settle, second, build_cancellation(taken))
        )
        after = job_of(first, taken.id).state

        assert (done, stopped, after) in {(True, False, State.COMPLETED), (False, True, State.CANCELLED)}


def test_two_reapers_at_once_count_each_crash_once(harness: ClaimingHarness, clock: Clock) -> None:
    first, second = harness.open(clock), harness.open(clock)

    for _ in range(harness.rounds // 2):
        ids = harness.given_jobs_by(first, 20, clock)
        take(first, limit=20, lease=10)
        clock.advance(10)
        reaped = run_concurrently([first.reap, second.reap])

        assert sorted(each.id for some in reaped for each in some) == sorted(ids)
        assert {job_of(first, id).crashes for id in ids} == {1}
        first.move(ids, Move.CANCEL)


def test_a_retry_and_a_claim_at_once_leave_no_job_behind(harness: ClaimingHarness, clock: Clock) -> None:
    first, second = harness.open(clock), harness.open(clock)

    for _ in range(harness.rounds):
        (id,) = harness.given_jobs_by(first, 1, clock)
        settle(first, build_failure(take_one(first), final=True))
        moved, taken = run_both_concurrently(partial(first.move, [id], Move.RETRY), partial(take, second))
        (again,) = [*taken, *take(second)]

        assert moved[0].moved
        assert (again.id, again.job.attempts) == (id, 1)
        assert settle(first, build_completion(again))


def test_two_claims_of_one_token_at_once_take_no_job_twice(harness: ClaimingHarness) -> None:
    first, second = harness.open(), harness.open()

    for _ in range(harness.rounds):
        harness.given_jobs_by(first, 4)
        asked = request(limit=2)
        one, other = run_concurrently([partial(first.claim, asked), partial(second.claim, asked)])
        jobs = {job.id: job for job in [*one.jobs, *other.jobs]}

        assert {job.fence for job in jobs.values()} == {1}
        assert all(settling.settle(first, [build_completion(as_taken(job, asked)) for job in jobs.values()]))
        settling.settle(first, [build_completion(each) for each in take(first, limit=9)])


def test_two_batches_of_the_same_jobs_in_opposite_order_do_not_block_each_other(harness: ClaimingHarness) -> None:
    first, second = harness.open(), harness.open()

    for _ in range(harness.rounds // 2):
        harness.given_jobs_by(first, 20)
        taken = take(first, limit=20)
        ids = [each.id for each in taken]
        landed, moved = run_both_concurrently(
            partial(settling.settle, first, [build_failure(each, final=True) for each in taken]),
            partial(second.move, ids[::-1], Move.CANCEL),
        )

        assert all(landed)
        assert {each.state for each in moved} <= {State.RUNNING, State.FAILED}


def test_ten_threads_on_one_handle_claim_each_job_once(harness: ClaimingHarness) -> None:
    store = harness.open()
    ids = harness.given_jobs(5 * harness.rounds)

    claimed = run_concurrently([partial(drain, store, f"w{n}", 3) for n in range(WORKERS)])

    assert Counter(id for each in claimed for id in each) == Counter(ids)


def test_a_reader_sees_all_of_a_batch_or_nothing_of_it(harness: ClaimingHarness) -> None:
    store, reader = harness.open(), harness.open()
    seen: set[int] = set()
    is_over = threading.Event()

    def read() -> None:
        is_last = False
        while not is_last:
            is_last = is_over.is_set()
            seen.add(reader.stats().total("cancelled") % 20)

    def move() -> None:
        for _ in range(harness.rounds // 2):
            store.move(harness.given_jobs_by(store, 20), Move.CANCEL)
        is_over.set()

    run_concurrently([read, move])

    assert seen == {0}


def test_ten_waiting_workers_drain_what_comes_while_they_wait(harness: ClaimingHarness) -> None:
    stores = [harness.open() for _ in range(WORKERS)]
    done = threading.Semaphore(0)
    claimed: list[str] = []
    is_over = threading.Event()

    def work(store: Claiming) -> None:
        while not is_over.is_set():
            for each in take(store):
                claimed.append(each.id)
                settle(store, build_completion(each))
                done.release()
            store.wait(None, None, 0.05)

    threads = [threading.Thread(target=work, args=(store,), daemon=True) for store in stores]
    with frequent_thread_switches():
        for thread in threads:
            thread.start()
        ids = harness.given_jobs(100)
        all_done = all(done.acquire(timeout=60) for _ in ids)
        is_over.set()
        for thread in threads:
            thread.join(60)

    assert all_done
    assert Counter(claimed) == Counter(ids)
