"""Yardsticks for the worker: an event loop that calls functions, and a store without a worker."""

import asyncio
import secrets
from time import perf_counter

from benchmarks.contestants.contract import LEASE, PAYLOAD
from benchmarks.worker.contract import CONCURRENCY
from benchmarks.worker.tenures import enqueue_in_parts, work_async
from tenure import Jobs
from tenure.backends.urls import open_backend
from tenure.core.operations import ClaimRequest, Hold, Settlement
from tenure.core.transitions import build_completion

BATCH = 100


class LoopBacklog:
    """As many coroutines as a worker has slots, which take functions from an `asyncio.Queue` and call them."""

    def __init__(self) -> None:
        self._queue: asyncio.Queue[int] = asyncio.Queue()

    def fill(self, number: int) -> None:
        for _ in range(number):
            self._queue.put_nowait(PAYLOAD["n"])

    def drain(self) -> float:
        started = perf_counter()
        asyncio.run(self._drain())
        return perf_counter() - started

    def close(self) -> None:
        pass

    async def _drain(self) -> None:
        slots = [asyncio.create_task(self._serve()) for _ in range(CONCURRENCY)]
        await self._queue.join()
        for slot in slots:
            slot.cancel()

    async def _serve(self) -> None:
        while True:
            await work_async(await self._queue.get())
            self._queue.task_done()


class StoreBacklog:
    """The store alone: completes a batch and claims the next in one round trip; no handler runs."""

    def __init__(self, url: str) -> None:
        self._store = open_backend(url)
        self._jobs = Jobs(self._store)

    def fill(self, number: int) -> None:
        enqueue_in_parts(self._jobs, number)

    def drain(self) -> float:
        started = perf_counter()
        settlements = self._exchange([])
        while settlements:
            settlements = self._exchange(settlements)
        return perf_counter() - started

    def close(self) -> None:
        self._jobs.close()

    def _exchange(self, settlements: list[Settlement]) -> list[Settlement]:
        request = ClaimRequest(worker="worker", token=secrets.token_hex(16), limit=BATCH, lease=LEASE)
        _, claimed = self._store.exchange(settlements, request)
        return [build_completion(Hold(id=job.id, fence=job.fence, token=request.token)) for job in claimed.jobs]
