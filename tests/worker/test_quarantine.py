"""A worker that claims jobs with earlier crashes."""

import threading
from collections.abc import Sequence
from dataclasses import dataclass, field
from types import SimpleNamespace
from typing import cast

import tenure
from tenure.client.run import Run
from tenure.testing import Clock, Harness
from tenure.worker.quarantine import Quarantine
from tenure.worker.run_queue import RunQueue
from tests.worker.looking import DEADLINE


def crash(jobs: tenure.Jobs, clock: Clock, times: int) -> None:
    """Claim all jobs and let their leases expire, `times` times."""
    for _ in range(times):
        jobs.claim(limit=100, lease=1)
        clock.advance(2)
        jobs.reap()


def test_a_job_that_may_crash_once_more_runs_with_no_other_beside_it(harness: Harness) -> None:
    clock = Clock()
    with tenure.Jobs(harness.open(clock)) as jobs:
        running, most, lock = 0, 0, threading.Lock()

        @jobs.task
        def last_chance() -> None:
            nonlocal running, most
            with lock:
                running += 1
                most = max(most, running)
            threading.Event().wait(0.02)
            with lock:
                running -= 1

        jobs.enqueue_many(last_chance.using(max_crashes=3).job() for _ in range(6))
        crash(jobs, clock, 2)
        summary = jobs.work(drain=True, concurrency=4)

        assert (summary.completed, most) == (6, 1)


def test_jobs_that_may_crash_once_more_are_found_again_after_they_were_given_back(harness: Harness) -> None:
    clock = Clock()
    with tenure.Jobs(harness.open(clock)) as jobs:

        @jobs.task
        def last_chance() -> None:
            pass

        jobs.enqueue_many(last_chance.using(max_crashes=2).job() for _ in range(4))
        crash(jobs, clock, 1)
        # The claim takes all jobs, so the hint that the store returns points behind the released jobs.
        summary = jobs.work(drain=True, concurrency=4)

        assert summary.completed == 4


def test_jobs_that_crashed_less_often_run_side_by_side(harness: Harness) -> None:
    clock = Clock()
    with tenure.Jobs(harness.open(clock)) as jobs:
        together = threading.Barrier(3)

        @jobs.task
        def crashed_once() -> None:
            together.wait(DEADLINE)

        jobs.enqueue_many(crashed_once.using(max_crashes=3).job() for _ in range(3))
        crash(jobs, clock, 1)

        assert jobs.work(drain=True, concurrency=3).completed == 3


def test_beside_a_job_that_may_crash_once_more_no_other_is_held(harness: Harness) -> None:
    clock = Clock()
    with tenure.Jobs(harness.open(clock)) as jobs:
        held: list[tuple[int, int]] = []

        @jobs.task
        def last_chance() -> None:
            held.append((tenure.current().job.crashes, jobs.stats().total("running")))

        jobs.enqueue_many(last_chance.using(max_crashes=2).job() for _ in range(5))
        crash(jobs, clock, 1)
        jobs.enqueue_many(last_chance.job() for _ in range(5))
        jobs.work(drain=True, concurrency=3)

        assert [number for crashes, number in held if crashes] == [1] * 5
        assert len(held) == 10


@dataclass(eq=False)
class Stub:
    job: SimpleNamespace
    handler: SimpleNamespace = field(default_factory=lambda: SimpleNamespace(is_async=True))
    runs_isolated: bool = False
    claimed_at: float = 0.0


def run_of(*, crashes: int = 0) -> Run:
    """Return a stub with the attributes of a run that `Quarantine` and `RunQueue` read."""
    return cast("Run", Stub(SimpleNamespace(crashes=crashes)))


def submit(runs: Sequence[Run]) -> None:
    """Start nothing."""


def test_no_job_is_buffered_behind_a_job_that_crashed() -> None:
    quarantine = Quarantine(RunQueue(2, submit))
    suspect, first, second = run_of(crashes=1), run_of(), run_of()

    assert quarantine.admit([suspect, first, second]) == [suspect, first]


def test_without_a_job_that_crashed_jobs_are_buffered() -> None:
    quarantine = Quarantine(RunQueue(2, submit))
    runs = [run_of() for _ in range(3)]

    assert quarantine.admit(runs) == runs


def test_running_jobs_leave_fewer_slots_for_a_job_that_crashed() -> None:
    run_queue = RunQueue(2, submit)
    run_queue.add([run_of()])
    suspect, other = run_of(crashes=1), run_of()

    assert Quarantine(run_queue).admit([suspect, other]) == [suspect]
