"""`AsyncJobs`, the async facade of `Jobs`.

The sync implementation is the only one. A facade calls it in a thread and awaits the result, one thread hop a call.
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
    """The async facade of a `Jobs`, with the same store and the same keeper. Event loops and threads may share it.

    A cancelled call finishes before `CancelledError` is raised. A cancelled `claim` returns at once, and jobs that it
    has claimed are released.
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
        """Claim up to `limit` due jobs (at most 1,000), waiting up to `wait` seconds for the first.

        A claim holds its job for `lease` seconds (1 to 86,400). Use the claims as an async context manager: the leases
        are extended inside the block, and unsettled claims are released on exit. `worker` is the name shown to
        operators, by default the host and the process id.
        """
        return AsyncClaims(self, await self._claim_with_wait(request_of(queues, types, limit, lease, worker), wait))

    @reject_unknown_options
    async def attach(self, id: str, *, fence: int, token: str, lease: Seconds = 60.0) -> "AsyncClaim":
        """Re-attach to a claim made elsewhere, as `Jobs.attach` does."""
        attach = partial(self.sync.attach, id, fence=fence, token=token, lease=lease)
        return (await self.threads.run(attach)).aio

    @property
    def tasks(self) -> Mapping[str, Task[..., Any, Any]]:
        """The registered tasks by type."""
        return self.sync.tasks

    @reject_unknown_options
    async def wait_for(self, id: str, timeout: Seconds | None = None) -> Job:
        """Wait up to `timeout` seconds until the job is completed and return it; raises as `Jobs.wait_for`."""
        seconds = checks.optional(checks.seconds, "timeout", timeout)
        for pause in chain(results.poll_delays(seconds), [0.0]):
            if (job := results.completed_job(id, await self.get(id))) is not None:
                return job
            await asyncio.sleep(pause)
        raise results.timeout_error(id, seconds)

    async def work(self, **options: Unpack[WorkerOptions]) -> "Summary":
        """Run the tasks on this event loop until SIGTERM or SIGINT, or with `drain=True` until no job is due.

        The options are those of `Jobs.work`. A cancel stops the worker as a signal does; `CancelledError` is raised
        when the worker has ended.
        """
        return await work(self.sync, **options)

    def worker(self, **options: Unpack[WorkerOptions]) -> "AsyncWorker":
        """Return a worker with the options of `Jobs.work`. As an async context manager it runs on this event loop."""
        return worker(self.sync, **options)

    def testing(self) -> "AbstractContextManager[TestQueue]":
        """Return the (sync) context manager of `Jobs.testing`; run its jobs with `await queue.aio.drain()`."""
        return self.sync.testing()

    def find(self, **filters: Unpack[Filters]) -> AsyncIterator[Job]:
        """Yield the matching jobs, read page by page, with the filters of `Jobs.find`."""
        return self._iterate_pages(self.sync._pages(build_query("find", filters)))

    def _bind(self, source: Jobs) -> None:
        super()._bind(source)
        # Registering a function needs no await.
        self.task, self.cron, self.around, self.lifespan = source.task, source.cron, source.around, source.lifespan


def create_facade(jobs: Jobs) -> AsyncJobs:
    """Return a new async facade of a `Jobs` that has none yet."""
    facade = AsyncJobs.__new__(AsyncJobs)
    facade._bind(jobs)
    return facade
