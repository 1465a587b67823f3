"""A rehearsal: the jobs of a `Jobs` in memory, by a clock that a test sets, run in the test's own thread.

For the length of its block nothing reaches the store that the `Jobs` names. After it, all is as it was before.
"""

from collections.abc import Iterator
from contextlib import contextmanager
from datetime import UTC, datetime
from typing import Any

from tenure.backends.protocol import Backend
from tenure.client.claim import Holder
from tenure.client.jobs import Jobs
from tenure.core import checks
from tenure.core.checks import Seconds, known_options
from tenure.core.job import Job
from tenure.errors import ConfigurationError
from tenure.testing.clock import Clock
from tenure.testing.drain import Drain
from tenure.testing.holder import holder_of
from tenure.testing.job_matcher import AnyTask, Wanted, listed
from tenure.testing.store import RehearsedStore


class Rehearsal:
    """What `jobs.testing()` gives. It can be looked at after its block as well."""

    def __init__(self, jobs: Jobs, clock: Clock, opened: tuple[Backend, Holder]) -> None:
        self._jobs = jobs
        self._clock = clock
        self._opened = opened
        self._seen = Jobs(opened[0])

    @property
    def aio(self) -> "AsyncRehearsal":
        """The same for async code."""
        return AsyncRehearsal(self)

    @property
    def now(self) -> datetime:
        """The moment that it is here. It stands still until it is moved, or set."""
        return self._clock.now

    @now.setter
    def now(self, value: datetime) -> None:
        self._clock.now = checks.moment("now", value)

    @known_options
    def advance(self, seconds: Seconds) -> None:
        """Move the clock on."""
        self._clock.advance(checks.seconds("seconds", seconds))

    @property
    def jobs(self) -> list[Job]:
        """All jobs as they are now, in the order in which they were enqueued."""
        return list(self._seen.find(newest_first=False))

    def enqueued(self, task: AnyTask, /, **arguments: Any) -> list[Job]:
        """Return the jobs of a task that were enqueued with these arguments, whatever became of them since.

        Arguments that are not named may be anything. The task may be a type; with options, as in
        `send.using(queue="mail")`, the jobs have these, and otherwise the options of the task.
        """
        wanted = Wanted(self._jobs.tasks, task, arguments)
        return [job for job in self.jobs if wanted.is_met_by(job)]

    def assert_enqueued(self, task: AnyTask, /, **arguments: Any) -> None:
        """Fail unless such a job was enqueued; `enqueued` says what is such a job."""
        __tracebackhide__ = True
        wanted = Wanted(self._jobs.tasks, task, arguments)
        jobs = self.jobs
        if not any(wanted.is_met_by(job) for job in jobs):
            raise AssertionError(f"{wanted} was not enqueued; {wanted.nearest(jobs)}")

    def assert_nothing_enqueued(self, task: AnyTask | None = None, /) -> None:
        """Fail if something was enqueued; with a task, if that was."""
        __tracebackhide__ = True
        jobs = self.jobs if task is None else self.enqueued(task)
        if jobs:
            raise AssertionError(f"nothing was to be enqueued, but this was:{listed(jobs)}")

    @known_options
    def drain(self, *, raises: bool = True) -> list[Job]:
        """Run all due jobs of the tasks here, in this thread, and those that they enqueue, until nothing is due.

        Return the jobs as they ended, in the order in which they ran. What a task raises is recorded on its job as by
        a worker, and then raised here: `raises=False` only records it. A due job that has no task stays queued, and
        `UnknownTask` is raised in the end. The time limits of tasks that are not async are not enforced.
        """
        return self._drain(raises=raises).run()

    def _drain(self, *, raises: bool) -> Drain:
        if self._jobs._opened is not self._opened:
            # Its tasks would enqueue in another store.
            raise ConfigurationError(
                "there is nothing to drain: drain inside the block of jobs.testing(), before the Jobs is closed"
            )
        return Drain(self._jobs, self._opened, raises=checks.truth("raises", raises))


class AsyncRehearsal:
    """A `Rehearsal` for code that runs on an event loop."""

    __slots__ = ("sync",)

    def __init__(self, rehearsal: Rehearsal) -> None:
        self.sync = rehearsal

    @known_options
    async def drain(self, *, raises: bool = True) -> list[Job]:
        """Run all due jobs as `Rehearsal.drain` does: async tasks on this event loop, the others between them."""
        return await self.sync._drain(raises=raises).run_async()


@contextmanager
def rehearse(jobs: Jobs) -> Iterator[Rehearsal]:
    """Put a new store in memory under this `Jobs`, its tasks and its twin, for the length of the block."""
    clock = Clock(datetime.now(UTC))
    store = RehearsedStore(clock=clock)
    opened = store, holder_of(store, jobs._backoff)
    with _put_under(jobs, opened):
        yield Rehearsal(jobs, clock, opened)


@contextmanager
def _put_under(jobs: Jobs, opened: tuple[Backend, Holder]) -> Iterator[None]:
    with jobs._lock:
        before, was_closed = jobs._opened, jobs._is_closed
        threads = {} if jobs._twin is None else jobs._twin._threads
        jobs._opened, jobs._is_closed = opened, False
        if jobs._twin is not None:
            jobs._twin._threads = {}
    try:
        # The code under test may close it as well; the threads of the twin end with that.
        with jobs:
            yield
    finally:
        with jobs._lock:
            jobs._opened, jobs._is_closed = before, was_closed
            if jobs._twin is not None:
                jobs._twin._threads = threads
