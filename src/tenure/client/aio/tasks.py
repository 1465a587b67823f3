"""Async facades of tasks: enqueue and wait for results without blocking the event loop."""

from typing import Generic, ParamSpec, TypeVar, Unpack

from tenure.core.checks import Seconds
from tenure.core.job import NewJob
from tenure.tasks.task import Call, Options, Task

P = ParamSpec("P")
C = TypeVar("C")
R = TypeVar("R")


class AsyncCall(Generic[P, C, R]):
    """The async facade of a `Call`: a task with the options of its next jobs."""

    __slots__ = ("sync",)

    def __init__(self, call: Call[P, C, R]) -> None:
        self.sync = call

    def job(self, /, *args: P.args, **kwargs: P.kwargs) -> NewJob:
        """Return a `NewJob` with these arguments, for `enqueue_many`."""
        return self.sync.job(*args, **kwargs)

    async def enqueue(self, /, *args: P.args, **kwargs: P.kwargs) -> str:
        """Enqueue a job with these arguments and return the job's id."""
        job = self.sync.job(*args, **kwargs)
        (id,) = await self.sync.task.jobs.aio.enqueue_many([job], connection=self.sync.connection)
        return id


class AsyncTask(Generic[P, C, R]):
    """The async facade of a `Task`."""

    __slots__ = ("sync",)

    def __init__(self, task: Task[P, C, R]) -> None:
        self.sync = task

    def __repr__(self) -> str:
        return f"<AsyncTask {self.sync.type!r}>"

    def __call__(self, /, *args: P.args, **kwargs: P.kwargs) -> C:
        return self.sync(*args, **kwargs)

    @property
    def type(self) -> str:
        return self.sync.type

    def job(self, /, *args: P.args, **kwargs: P.kwargs) -> NewJob:
        """Return a `NewJob` with these arguments, for `enqueue_many`."""
        return self.sync.job(*args, **kwargs)

    def using(self, **options: Unpack[Options]) -> AsyncCall[P, C, R]:
        """Return the task with these options for the jobs enqueued through it; other options are unchanged."""
        return self.sync.using(**options).aio

    async def enqueue(self, /, *args: P.args, **kwargs: P.kwargs) -> str:
        """Enqueue a job with these arguments and return the job's id."""
        return await self.sync.using().aio.enqueue(*args, **kwargs)

    async def result(self, id: str, timeout: Seconds | None = None) -> R:
        """Wait up to `timeout` seconds for the job and return its result. Raises the errors of `Task.result`."""
        return self.sync.result_of(await self.sync.jobs.aio.wait_for(id, timeout))
