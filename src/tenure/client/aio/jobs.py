"""Jobs for async code: the same verbs, awaited.

There is one implementation, the synchronous one. A twin calls it in a thread and awaits the answer, one hop a call.
"""

import asyncio
from collections.abc import AsyncIterator, Mapping
from functools import partial
from itertools import chain
from typing import TYPE_CHECKING, Any, Unpack

from tenure.backends.urls import Store
from tenure.client import results
from tenure.client.aio.awaited import awaited
from tenure.client.aio.claims import AsyncClaim, AsyncClaims
from tenure.client.aio.source import AsyncSource
from tenure.client.aio.work import work, worker
from tenure.client.jobs import Jobs
from tenure.client.retention import Keep
from tenure.client.source import request_of
from tenure.client.worker_options import WorkerOptions
from tenure.core import checks
from tenure.core.backoff import Backoff
from tenure.core.checks import Seconds, known_options
from tenure.core.filters import Filters, Names, query_of
from tenure.core.job import Job
from tenure.tasks.task import Task

if TYPE_CHECKING:
    from contextlib import AbstractContextManager

    from tenure.testing import Rehearsal
    from tenure.worker import AsyncWorker, Summary


class AsyncJobs(AsyncSource[Jobs]):
    """The awaited twin of a `Jobs`: the same store, and the same keeper. Any event loops and threads may share it.

    A call that is cancelled comes to its end before the cancel is raised. A claim that is cancelled ends at once, and
    what it takes is given back.
    """

    @known_options
    def __init__(self, store: Store | None = None, *, backoff: Backoff | None = None, keep: Keep | None = None) -> None:
        self._join(Jobs(store, backoff=backoff, keep=keep))

    enqueue = awaited(Jobs.enqueue)
    enqueue_many = awaited(Jobs.enqueue_many, reads=True)
    reap = awaited(Jobs.reap)
    get = awaited(Jobs.get)
    stats = awaited(Jobs.stats)
    explain = awaited(Jobs.explain)
    counts = awaited(Jobs.counts)
    workers = awaited(Jobs.workers)
    retry = awaited(Jobs.retry, reads=True)
    cancel = awaited(Jobs.cancel, reads=True)
    delete = awaited(Jobs.delete, reads=True)
    purge = awaited(Jobs.purge)
    pause = awaited(Jobs.pause)
    resume = awaited(Jobs.resume)
    migrate = awaited(Jobs.migrate)

    @known_options
    async def claim(
        self,
        *,
        queues: Names | None = None,
        types: Names | None = None,
        limit: int = 1,
        lease: Seconds = 60.0,
        wait: Seconds = 0.0,
        worker: str | None = None,
    ) -> "AsyncClaims":
        """Take up to `limit` due jobs, waiting up to `wait` seconds for the first.

        Use the claims as a block to have them kept alive while you work; those you do not settle are released.
        """
        return AsyncClaims(self, await self._take(request_of(queues, types, limit, lease, worker), wait))

    @known_options
    async def claimed(self, id: str, *, fence: int, token: str, lease: Seconds = 60.0) -> "AsyncClaim":
        """Return the handle of a claim that was made elsewhere, as `Jobs.claimed` does."""
        find = partial(self.sync.claimed, id, fence=fence, token=token, lease=lease)
        return (await self.threads.run(find)).aio

    @property
    def tasks(self) -> Mapping[str, Task[..., Any, Any]]:
        """The tasks by their types."""
        return self.sync.tasks

    @known_options
    async def wait_for(self, id: str, timeout: Seconds | None = None) -> Job:
        """Return the job when it is completed, waiting so many seconds at most. Raises as `Jobs.wait_for` does."""
        seconds = checks.optional(checks.seconds, "timeout", timeout)
        for pause in chain(results.pauses(seconds), [0.0]):
            if (job := results.completed(id, await self.get(id))) is not None:
                return job
            await asyncio.sleep(pause)
        raise results.not_yet(id, seconds)

    async def work(self, **options: Unpack[WorkerOptions]) -> "Summary":
        """Run the tasks on this event loop until SIGTERM or SIGINT, or with `drain=True` until nothing is due.

        The options are those of `Jobs.work`. A cancel stops it as a signal does, and is raised when it has ended.
        """
        return await work(self.sync, **options)

    def worker(self, **options: Unpack[WorkerOptions]) -> "AsyncWorker":
        """Return a worker with the options of `Jobs.work`, to be used as an async block on this event loop."""
        return worker(self.sync, **options)

    def testing(self) -> "AbstractContextManager[Rehearsal]":
        """Return the block of `Jobs.testing`, a plain one; jobs are run by `await queue.aio.drain()`."""
        return self.sync.testing()

    def find(self, **filters: Unpack[Filters]) -> AsyncIterator[Job]:
        """Yield the jobs that match, read page by page; without a condition, all."""
        return self._found(self.sync._pages(query_of("find", filters)))

    def _join(self, source: Jobs) -> None:
        super()._join(source)
        # To register a function is the same for both.
        self.task, self.cron, self.around, self.lifespan = source.task, source.cron, source.around, source.lifespan


def twin_of(jobs: Jobs) -> AsyncJobs:
    """Return a twin for this `Jobs`, which has none yet."""
    twin = AsyncJobs.__new__(AsyncJobs)
    twin._join(jobs)
    return twin
