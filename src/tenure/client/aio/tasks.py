"""Tasks for async code: enqueued and waited for without holding up the event loop."""

from typing import Generic, ParamSpec, TypeVar, Unpack

from tenure.core.checks import Seconds
from tenure.core.job import NewJob
from tenure.tasks.task import Call, Options, Task

P = ParamSpec("P")
C = TypeVar("C")
R = TypeVar("R")


class AsyncCall(Generic[P, C, R]):
    """The awaited twin of a `Call`: a task, and the options of the jobs that are enqueued through it."""

    __slots__ = ("sync",)

    def __init__(self, call: Call[P, C, R]) -> None:
        self.sync = call

    def job(self, /, *args: P.args, **kwargs: P.kwargs) -> NewJob:
        """Return the job that a call with these arguments is, to be enqueued with others."""
        return self.sync.job(*args, **kwargs)

    async def enqueue(self, /, *args: P.args, **kwargs: P.kwargs) -> str:
        """Store a call with these arguments as a job, and return its id."""
        job = self.sync.job(*args, **kwargs)
        (id,) = await self.sync.task.jobs.aio.enqueue_many([job], connection=self.sync.connection)
        return id


class AsyncTask(Generic[P, C, R]):
    """The awaited twin of a `Task`."""

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
        """Return the job that a call with these arguments is, to be enqueued with others."""
        return self.sync.job(*args, **kwargs)

    def using(self, **options: Unpack[Options]) -> AsyncCall[P, C, R]:
        """Return this task with these options for what is enqueued through it; the others stay as they are."""
        return self.sync.using(**options).aio

    async def enqueue(self, /, *args: P.args, **kwargs: P.kwargs) -> str:
        """Store a call with these arguments as a job, and return its id."""
        return await self.sync.using().aio.enqueue(*args, **kwargs)

    async def result(self, id: str, timeout: Seconds | None = None) -> R:
        """Wait for the job to end, so many seconds at most, and return its result. Raises as `Task.result` does."""
        return self.sync.result_of(await self.sync.jobs.aio.wait_for(id, timeout))
