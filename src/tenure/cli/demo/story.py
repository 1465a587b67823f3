"""The story of the demo, step by step.

Each step waits for a state of the store, never for a fixed time, so the story also works on a slow machine.
"""

import time
from collections import Counter
from collections.abc import Callable
from functools import partial
from pathlib import Path

import tenure
from tenure.cli.demo import app
from tenure.cli.demo.crew import CONCURRENCY, LEASE, WORKERS, WorkerGroup, WorkerProcess
from tenure.cli.demo.report import AffectedWorker, DemoFacts
from tenure.cli.demo.screen import RaceStatus, Screen, WorkerRow
from tenure.cli.demo.traces import Trace, read_starts

TIME_LIMIT = 180.0
"""Time limit of the demo, in seconds."""
TICK_INTERVAL = 0.05
DUE_JOBS = 200
"""Number of jobs kept due until the last scene: more than the workers complete in one tick."""
MIN_ENQUEUED = 50
"""Minimum number of jobs to enqueue at once."""
MIN_BUFFERED = 2
"""Minimum number of buffered jobs of a worker that is killed or frozen."""


class StoryTimeout(Exception):  # noqa: N818 - named after the fact
    """An awaited state was not reached in time."""


class Story:
    """Runs once. `short_timeout_jobs` has a short lock timeout on the same store: a frozen worker may hold the lock."""

    def __init__(
        self, jobs: tenure.Jobs, short_timeout_jobs: tenure.Jobs, path: Path, group: WorkerGroup, screen: Screen
    ) -> None:
        self._jobs = jobs
        self._short_timeout_jobs = short_timeout_jobs
        self._path = path
        self._group = group
        self._screen = screen
        self._number = 0
        self._is_refilling = False
        self._ends_at = time.monotonic() + TIME_LIMIT

    def play(self) -> DemoFacts:
        self._wait_until("all workers are registered", lambda: len(self._group.workers) == WORKERS)
        self._is_refilling = True
        self._print(f"workers started: pid {', '.join(str(each.pid) for each in self._group.workers)}")
        self._wait_until("some jobs are completed", lambda: self._completed_count() >= DUE_JOBS)

        victim, killed = self._freeze_busy_worker()
        victim.kill()
        had = f"{len(killed.started)} jobs started, {len(killed.buffered)} buffered"
        self._print(f"{victim} is killed with SIGKILL: {had}", "red")
        self._wait_until_reaped(victim, killed)
        successor = self._wait_until_replaced()

        sleeper, frozen = self._freeze_busy_worker()
        self._print(f"{sleeper} is frozen with SIGSTOP while it holds {len(frozen.held)} jobs", "cyan")
        self._wait_until_taken_over(sleeper, frozen)
        self._is_refilling = False
        self._resume(sleeper, frozen)

        self._wait_until("all jobs are completed", lambda: self._completed_count() == self._number)
        self._group.stop()
        return DemoFacts(number=self._number, killed=killed, successor=successor.name, frozen=frozen)

    def _freeze_busy_worker(self) -> tuple[WorkerProcess, AffectedWorker]:
        """Freeze a worker with full concurrency and buffered jobs; return the worker and its claims."""
        while True:
            holding = self._held_counts()
            busy = [each for each in self._group.running() if holding[each.name] >= CONCURRENCY + MIN_BUFFERED]
            if busy:
                worker = min(busy, key=lambda each: holding[each.name])
                worker.freeze()
                affected = self._claims_of(worker)
                is_full = len(affected.started) == CONCURRENCY and len(affected.buffered) >= MIN_BUFFERED
                # Read twice: the worker may have run on for a moment.
                if is_full and self._is_writable() and self._claims_of(worker) == affected:
                    return worker, affected
                worker.resume()
            self._tick("a worker has buffered enough jobs")

    def _claims_of(self, worker: WorkerProcess) -> AffectedWorker:
        held = {Trace.of(job) for job in self._jobs.find(state="running", worker=worker.name)}
        started = held.intersection(read_starts(self._path))
        return AffectedWorker(worker=worker.name, started=frozenset(started), buffered=frozenset(held - started))

    def _is_writable(self) -> bool:
        """Whether the store is writable: a worker frozen inside a transaction would block all writers."""
        try:
            # Changes nothing, but needs the write lock.
            self._short_timeout_jobs.resume("default")
        except tenure.StoreUnavailable:
            return False
        return True

    def _wait_until_reaped(self, worker: WorkerProcess, affected: AffectedWorker) -> None:
        def outcomes() -> list[tenure.Outcome]:
            endings = ((trace, ending) for trace in affected.held for ending in self._job(trace).history)
            return [ending.outcome for trace, ending in endings if ending.fence == trace.fence]

        killed_at = time.monotonic()
        self._wait_until(f"the jobs of {worker} are reaped", lambda: len(outcomes()) == len(affected.held))
        after, number = time.monotonic() - killed_at, Counter(outcomes())
        crashed, released = number[tenure.Outcome.EXPIRED], number[tenure.Outcome.RELEASED]
        self._print(f"the supervisor reaps its jobs after {after:.1f} s: {crashed} count a crash, {released} do not")

    def _wait_until_replaced(self) -> WorkerProcess:
        """Wait until the supervisor has replaced the killed worker, and the replacement has completed a job."""
        self._wait_until("the supervisor starts another worker", lambda: len(self._group.workers) > WORKERS)
        successor = self._group.workers[-1]
        self._print(f"the supervisor starts {successor} in its place")
        done = partial(self._jobs.find, state="completed", worker=successor.name)
        self._wait_until(f"{successor} completes a job", lambda: any(done()))
        return successor

    def _wait_until_taken_over(self, worker: WorkerProcess, affected: AffectedWorker) -> None:
        def taken() -> list[tenure.Job]:
            found = {trace: self._job(trace) for trace in affected.held}
            return [job for trace, job in found.items() if job.worker and job.fence > trace.fence]

        self._wait_until(f"the jobs of {worker} are taken over", lambda: len(taken()) == len(affected.held))
        takers = self._group.numbers_of(job.worker for job in taken())
        self._print(f"its leases of {LEASE:g} s expired: its jobs are taken over by worker {takers}")

    def _resume(self, worker: WorkerProcess, affected: AffectedWorker) -> None:
        before, number = self._rejected_count(), len(affected.held)
        worker.resume()
        self._print(f"{worker} is resumed with SIGCONT and continues its {number} jobs", "cyan")
        self._wait_until(f"the writes of {worker} are rejected", lambda: self._rejected_count() - before >= number)
        self._print(f"the store rejects the {number} late writes of worker {worker.number}: ClaimLost", "cyan")

    def _wait_until(self, what: str, condition: Callable[[], bool]) -> None:
        while not condition():
            self._tick(what)

    def _tick(self, what: str) -> None:
        """Sleep one tick while waiting. Raise after the time limit, or if a process has ended."""
        self._group.add_registered(self._jobs.workers())
        self._group.check()
        if self._is_refilling:
            self._refill_queue()
        workers, holding = self._group.workers, self._held_counts()
        rows = [WorkerRow(name=f"worker {each.number}", state=each.state, holds=holding[each.name]) for each in workers]
        self._screen.update(RaceStatus(completed=self._completed_count(), number=self._number, workers=rows))
        if time.monotonic() > self._ends_at:
            states = ", ".join(f"{each} {each.state}" for each in workers)
            raise StoryTimeout(f"timeout after {TIME_LIMIT:g} s, waiting until {what}; {states or 'no worker'}")
        time.sleep(TICK_INTERVAL)

    def _refill_queue(self) -> None:
        missing = DUE_JOBS - self._jobs.stats().total("due")
        if missing >= MIN_ENQUEUED:
            self._jobs.enqueue_many([app.work.job()] * missing)
            self._number += missing

    def _job(self, trace: Trace) -> tenure.Job:
        job = self._jobs.get(trace.job)
        if job is None:
            raise StoryTimeout(f"job {trace.job} is no longer in the store")
        return job

    def _held_counts(self) -> Counter[str]:
        return Counter({each.name: each.holding for each in self._jobs.workers()})

    def _completed_count(self) -> int:
        return self._jobs.stats().total("completed")

    def _rejected_count(self) -> int:
        return sum(count.number for count in self._jobs.counts() if count.event is tenure.Event.REFUSED)

    def _print(self, text: str, style: str = "") -> None:
        self._screen.print_line(f"  {text}", style)
