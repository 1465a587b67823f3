"""The common part of `AsyncJobs` and `AsyncTable`."""

import os
from collections.abc import AsyncIterator, Iterator
from functools import partial
from types import TracebackType
from typing import Any, Generic, Self, TypeVar

from tenure.client.aio.awaited import AsyncOnly
from tenure.client.aio.threads import Threads, run_in_new_thread
from tenure.client.keeper import ticks
from tenure.client.source import Source
from tenure.core import checks
from tenure.core.checks import Seconds
from tenure.core.job import Job
from tenure.core.operations import ClaimRequest

Z = TypeVar("Z", bound=Source[Any, Any])


class AsyncSource(AsyncOnly, Generic[Z]):
    """The async facade of a `Source`, with the same store and the same keeper."""

    sync: Z
    """The sync `Jobs` or `Table`."""

    async def close(self) -> None:
        """Wait for running operations, stop extending leases and close the store. Closing twice is harmless."""
        await run_in_new_thread(self.sync.close)

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.close()

    @property
    def threads(self) -> Threads:
        """The threads of this process. A forked child gets its own."""
        process = os.getpid()
        return self._threads.get(process) or self._threads.setdefault(
            process, Threads(self._wait, self.sync.closed_message)
        )

    def _bind(self, source: Z) -> None:
        self.sync = source
        self._threads: dict[int, Threads] = {}
        source._facade = self

    async def _claim_with_wait(self, request: ClaimRequest, wait: Seconds) -> Any:
        ends_at = ticks() + checks.seconds("wait", wait)
        find = partial(self.sync._claim_once, request)
        return await self.threads.claim(find, (request.queues, request.types), ends_at)

    def _wait(self, queues: tuple[str, ...] | None, types: tuple[str, ...] | None, timeout: float) -> None:
        self.sync._backend.wait(queues, types, timeout)

    async def _iterate_pages(self, pages: Iterator[list[Job]]) -> AsyncIterator[Job]:
        while (page := await self.threads.run(partial(next, pages, None))) is not None:
            for job in page:
                yield job
