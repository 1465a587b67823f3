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
from tenure.client.aio.awaited import async_method
from tenure.client.aio.claims import AsyncClaim, AsyncClaims
from tenure.client.aio.source import AsyncSource
from tenure.client.aio.work import work, worker
from tenure.client.jobs import Jobs
from tenure.client.retention import Retention
from tenure.client.source import request_of
from tenure.client.worker_options import WorkerOptions
from tenure.core import checks
from tenure.core.backoff import Backoff
from tenure.core.checks import Seconds, reject_unknown_options
from tenure.core.filters import Filters, NameOrNames, build_query
from tenure.core.job import Job
from tenure.tasks.task import Task

if TYPE_CHECKING:
    from contextlib import AbstractContextManager

    from tenure.testing import TestQueue
    from tenure.worker import AsyncWorker, Summary


class AsyncJobs(AsyncSource[Jobs]):
    """The awaited twin of a `Jobs`: the same store, and the same keeper. Any event loops and threads may share it.

    A call that is cancelled comes to its end before the cancel is raised. A claim that is cancelled ends at once, and
    what it takes is given back.
    """

    @reject_unknown_options
    def __init__(
        self, store: Store | None = None, *, backoff: Backoff | None = None, retention: Retention | None = None
    ) -> None:
        self._bind(Jobs(store, backoff=backoff, retention=retention))

    enqueue = async_method(Jobs.enqueue)
    enqueue_many = async_method(Jobs.enqueue_many, reads_iterators=True)
    reap = async_method(Jobs.reap)
    get = async_method(Jobs.get)
    stats = async_method(Jobs.stats)
    explain = async_method(Jobs.explain)
    counts = async_method(Jobs.counts)
    workers = async_method(Jobs.workers)
    retry = async_method(Jobs.retry, reads_iterators=True)
    cancel = async_method(Jobs.cancel, reads_iterators=True)
    delete = async_method(Jobs.delete, reads_iterators=True)
    purge = async_method(Jobs.purge)
    pause = async_method(Jobs.pause)
    resume = async_method(Jobs.resume)
    migrate = async_method(Jobs.migrate)

    @reject_unknown_options
    async def claim(
        self,
        *,
        queues: NameOrNames | None = None,
        types: NameOrNames | None = None,
        limit: int = 1,
        lease: Seconds = 60.0,
        wait: Seconds = 0.0,
        worker: str | None = None,
    ) -> "AsyncClaims":
        """Take up to `limit` due jobs, waiting up to `wait` seconds for the first.

        Use the claims as a block to have them kept alive while you work; those you do not settle are released.
        """
        return AsyncClaims(self, await self._claim_with_wait(request_of(queues, types, limit, lease, worker), wait))

    @reject_unknown_options
    async def attach(self, id: str, *, fence: int, token: str, lease: Seconds = 60.0) -> "AsyncClaim":
        """Return the handle of a claim that was made elsewhere, as `Jobs.claimed` does."""
        attach = partial(self.sync.attach, id, fence=fence, token=token, lease=lease)
        return (await self.threads.run(attach)).aio

    @property
    def tasks(self) -> Mapping[str, Task[..., Any, Any]]:
        """The tasks by their types."""
        return self.sync.tasks

    @reject_unknown_options
    async def wait_for(self, id: str, timeout: Seconds | None = None) -> Job:
        """Return the job when it is completed, waiting so many seconds at most. Raises as `Jobs.wait_for` does."""
        seconds = checks.optional(checks.seconds, "timeout", timeout)
        for pause in chain(results.poll_delays(seconds), [0.0]):
            if (job := results.completed_job(id, await self.get(id))) is not None:
                return job
            await asyncio.sleep(pause)
        raise results.timeout_error(id, seconds)

    async def work(self, **options: Unpack[WorkerOptions]) -> "Summary":
        """Run the tasks on this event loop until SIGTERM or SIGINT, or with `drain=True` until nothing is due.

        The options are those of `Jobs.work`. A cancel stops it as a signal does, and is raised when it has ended.
        """
        return await work(self.sync, **options)

    def worker(self, **options: Unpack[WorkerOptions]) -> "AsyncWorker":
        """Return a worker with the options of `Jobs.work`, to be used as an async block on this event loop."""
        return worker(self.sync, **options)

    def testing(self) -> "AbstractContextManager[TestQueue]":
        """Return the block of `Jobs.testing`, a plain one; jobs are run by `await queue.aio.drain()`."""
        return self.sync.testing()

    def find(self, **filters: Unpack[Filters]) -> AsyncIterator[Job]:
        """Yield the jobs that match, read page by page; without a condition, all."""
        return self._iterate_pages(self.sync._pages(build_query("find", filters)))

    def _bind(self, source: Jobs) -> None:
        super()._bind(source)
        # To register a function is the same for both.
        self.task, self.cron, self.around, self.lifespan = source.task, source.cron, source.around, source.lifespan


def create_facade(jobs: Jobs) -> AsyncJobs:
    """Return a twin for this `Jobs`, which has none yet."""
    facade = AsyncJobs.__new__(AsyncJobs)
    facade._bind(jobs)
    return facade
