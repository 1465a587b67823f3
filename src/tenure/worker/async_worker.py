"""Run a worker on the caller's event loop."""

import asyncio
from functools import partial
from types import TracebackType
from typing import Any, Self

from tenure.client.aio.threads import run_in_new_thread
from tenure.client.worker_options import WorkerOptions
from tenure.errors import ConfigurationError
from tenure.worker.sources import Sources
from tenure.worker.summary import Summary
from tenure.worker.worker import ALREADY_RUN, Worker


class AsyncWorker:
    """A worker that shares the caller's event loop. Use it as an async block: the worker stops when the block ends."""

    sync: Worker
    """The worker, set when the block is entered."""

    def __init__(self, sources: Sources, options: WorkerOptions) -> None:
        self._build_worker = partial(Worker, sources, options)
        self._serving: asyncio.Task[Any] | None = None

    async def __aenter__(self) -> Self:
        if self._serving is not None:
            raise ConfigurationError(ALREADY_RUN)
        # In a thread, because the constructor opens the store.
        self.sync = await run_in_new_thread(self._build_worker)
        self._serving = asyncio.create_task(self.sync.serve(), name="tenure-worker")
        try:
            await self.sync.started()
        except BaseException:
            self._serving.cancel()
            await asyncio.gather(self._serving, return_exceptions=True)
            raise
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.stop()
        if self._serving is not None:
            await self._serving

    @property
    def name(self) -> str:
        """The unique name under which the worker claims."""
        return self.sync.name

    @property
    def summary(self) -> Summary:
        """Counts of the runs that have ended so far."""
        return self.sync.summary

    def stop(self, *, now: bool = False) -> None:
        """Stop claiming, and end when the handlers have ended or the grace period is over; with `now`, do not wait."""
        self.sync.stop(now=now)
