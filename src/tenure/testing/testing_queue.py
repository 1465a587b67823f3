"""`Jobs.testing()`: an in-memory store with a clock that the test sets; jobs run in the thread of the test.

Inside the block nothing reaches the configured store of the `Jobs`. The exit restores it.
"""

from collections.abc import Iterator
from contextlib import contextmanager
from datetime import UTC, datetime
from typing import Any, ClassVar

from tenure.backends.protocol import Backend
from tenure.client.claim import Holder
from tenure.client.jobs import Jobs
from tenure.core import checks
from tenure.core.checks import Seconds, reject_unknown_options
from tenure.core.job import Job
from tenure.errors import ConfigurationError
from tenure.testing.clock import Clock
from tenure.testing.drain import Drain
from tenure.testing.holder import holder_of
from tenure.testing.job_matcher import AnyTask, JobMatcher, format_jobs
from tenure.testing.store import ImmediateStore


class TestQueue:
    """The queue that `jobs.testing()` yields. Its jobs can be inspected after the block as well."""

    # Keeps pytest from collecting a class whose name begins with Test.
    __test__: ClassVar[bool] = False

    def __init__(self, jobs: Jobs, clock: Clock, opened: tuple[Backend, Holder]) -> None:
        self._jobs = jobs
        self._clock = clock
        self._opened = opened
        self._reader = Jobs(opened[0])

    @property
    def aio(self) -> "AsyncTestQueue":
        """The async facade, for `await queue.aio.drain()`."""
        return AsyncTestQueue(self)

    @property
    def now(self) -> datetime:
        """The current time of the store. It changes only by `advance` or by assignment."""
        return self._clock.now

    @now.setter
    def now(self, value: datetime) -> None:
        self._clock.now = checks.timestamp("now", value)

    @reject_unknown_options
    def advance(self, seconds: Seconds) -> None:
        """Move the clock forward by `seconds`."""
        self._clock.advance(checks.seconds("seconds", seconds))

    @property
    def jobs(self) -> list[Job]:
        """All jobs in their present state, in enqueue order."""
        return list(self._reader.find(newest_first=False))

    def enqueued(self, task: AnyTask, /, **arguments: Any) -> list[Job]:
        """Return the jobs of a task that were enqueued with these arguments, in any state.

        Arguments that are not named match any value. `task` is a task, its type, or a task with options such as
        `send.using(queue="mail")`; the job must then have these options and, for the rest, the options of the task.
        """
        matcher = JobMatcher(self._jobs.tasks, task, arguments)
        return [job for job in self.jobs if matcher.matches(job)]

    def assert_enqueued(self, task: AnyTask, /, **arguments: Any) -> None:
        """Raise `AssertionError` unless a job matches; see `enqueued`. The message lists the nearest jobs."""
        __tracebackhide__ = True
        matcher = JobMatcher(self._jobs.tasks, task, arguments)
        jobs = self.jobs
        if not any(matcher.matches(job) for job in jobs):
            raise AssertionError(f"{matcher} was not enqueued; {matcher.describe_nearest(jobs)}")

    def assert_nothing_enqueued(self, task: AnyTask | None = None, /) -> None:
        """Raise `AssertionError` if a job was enqueued; with `task`, if a job of that task was."""
        __tracebackhide__ = True
        jobs = self.jobs if task is None else self.enqueued(task)
        if jobs:
            raise AssertionError(f"expected no enqueued jobs, found:{format_jobs(jobs)}")

    @reject_unknown_options
    def drain(self, *, raises: bool = True) -> list[Job]:
        """Run all due jobs in this thread, including jobs that they enqueue, until no job is due.

        Returns the jobs as they ended, in the order in which they ran. An exception of a task is recorded on its job as
        by a worker, and then raised here; `raises=False` only records it. A due job without a registered task stays
        queued, and `UnknownTask` is raised at the end. Time limits of sync tasks are not enforced.
        """
        return self._drain(raises=raises).run()

    def _drain(self, *, raises: bool) -> Drain:
        if self._jobs._opened is not self._opened:
            # The tasks would enqueue in the configured store.
            raise ConfigurationError(
                "cannot drain: the block of jobs.testing() has ended or the Jobs is closed; call drain inside the block"
            )
        return Drain(self._jobs, self._opened, raises=checks.boolean("raises", raises))


class AsyncTestQueue:
    """The async facade of a `TestQueue`."""

    __slots__ = ("sync",)

    def __init__(self, queue: TestQueue) -> None:
        self.sync = queue

    @reject_unknown_options
    async def drain(self, *, raises: bool = True) -> list[Job]:
        """Run all due jobs as `TestQueue.drain` does: async tasks on this event loop, sync tasks between them."""
        return await self.sync._drain(raises=raises).run_async()


@contextmanager
def use_test_queue(jobs: Jobs) -> Iterator[TestQueue]:
    """Replace the store of a `Jobs`, its tasks and its async facade by a new in-memory store, inside the block."""
    clock = Clock(datetime.now(UTC))
    store = ImmediateStore(clock=clock)
    opened = store, holder_of(store, jobs._backoff)
    with _replace_store(jobs, opened):
        yield TestQueue(jobs, clock, opened)


@contextmanager
def _replace_store(jobs: Jobs, opened: tuple[Backend, Holder]) -> Iterator[None]:
    with jobs._lock:
        before, was_closed = jobs._opened, jobs._is_closed
        threads = {} if jobs._facade is None else jobs._facade._threads
        jobs._opened, jobs._is_closed = opened, False
        if jobs._facade is not None:
            jobs._facade._threads = {}
    try:
        # Close the Jobs on exit, to end the threads of its async facade. The code under test may close it as well.
        with jobs:
            yield
    finally:
        with jobs._lock:
            jobs._opened, jobs._is_closed = before, was_closed
            if jobs._facade is not None:
                jobs._facade._threads = threads
