"""The threads that run sync calls for coroutines.

Not the event loop's default executor: it ends with the loop, and the caller may have filled it. One pool runs
operations. An `EndingExecutor` ends claims, which may wait for locked jobs. A third pool only waits for jobs, one wait
for all coroutines that claim the same queues and types. So operations and endings find a thread however many coroutines
wait. `close` ends all threads; without it, a program that exits waits only for running operations.
"""

import asyncio
import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from contextvars import copy_context
from typing import Any, Protocol, TypeVar

from tenure.client.aio.ending_executor import EndingExecutor
from tenure.client.aio.pending_claim import AnyClaims, PendingClaim
from tenure.client.keeper import ticks
from tenure.client.source import LONGEST_POLL
from tenure.errors import StoreUnavailable

R = TypeVar("R")

QueuesAndTypes = tuple[tuple[str, ...] | None, tuple[str, ...] | None]
"""The queues and the types of a claim request."""

Wait = Callable[[tuple[str, ...] | None, tuple[str, ...] | None, float], None]

AnyExecutor = ThreadPoolExecutor | EndingExecutor

OPERATION_THREADS = 8
WAITER_THREADS = 4
"""How many waits run at a time. More distinct waits than that take turns within a second."""


class ThreadRunner(Protocol):
    """Runs a sync operation for a coroutine, always to its end."""

    async def run(self, function: Callable[[], R]) -> R: ...


class Threads:
    """The threads of one source in one process, started on demand."""

    def __init__(self, wait: Wait, closed_message: str) -> None:
        self._wait = wait
        self._closed_message = closed_message
        self._operations = ThreadPoolExecutor(OPERATION_THREADS, "tenure-operation")
        self._endings = EndingExecutor()
        self.endings = PoolRunner(self, self._endings)
        self._waiters = ThreadPoolExecutor(WAITER_THREADS, "tenure-waiter")
        # Reentrant: garbage collection of a coroutine may enter here while this thread holds the lock.
        self._lock = threading.RLock()
        self._is_closed = False
        self._pending_claims: set[PendingClaim] = set()
        self._waiting_claims: dict[QueuesAndTypes, list[PendingClaim]] = {}

    async def run(self, function: Callable[[], R]) -> R:
        """Run an operation in a thread. A cancel is raised only after the operation has finished."""
        return await self.run_in(self._operations, function)

    async def run_in(self, pool: AnyExecutor, function: Callable[[], R]) -> R:
        """Run an operation in a thread of the pool."""
        with self._lock:
            future = None if self._is_closed else submit(pool, function)
        # A block may exit after `close`: the sync object handles or rejects that.
        return await (run_in_new_thread(function) if future is None else wait_until_done(future))

    async def claim(self, claim_once: Callable[[], AnyClaims], selection: QueuesAndTypes, ends_at: float) -> AnyClaims:
        """Claim, polling until `ends_at`. After a cancel, claims are released."""
        pending = PendingClaim(claim_once, ends_at, self._closed_message)
        with self._lock:
            self._require_open()
            self._pending_claims.add(pending)
        try:
            # Compute before the first poll: if no time is left, the first poll is also the last.
            left = ends_at - ticks()
            self._submit(self._start, pending, selection)
            if left > 0 and not await pending.wait(left):
                pending.ends_at = ticks()
                self._submit(pending.poll)
            await pending.wait()
            claims = pending.take()
        except BaseException:
            self._abandon(pending)
            raise
        self._pending_claims.discard(pending)
        return claims

    def finish(self) -> None:
        """Reject new claims, end all waiting claims, and wait for running operations."""
        with self._lock:
            self._is_closed = True
            pending_claims = list(self._pending_claims)
        for pending in pending_claims:
            pending.close()
        self._operations.shutdown()
        self._endings.shutdown()

    def join(self) -> None:
        """Wait for the waiting threads to end. The store must be closed: its `close` wakes them."""
        self._waiters.shutdown()

    def _abandon(self, pending: PendingClaim) -> None:
        is_to_undo = pending.abandon()
        with self._lock:
            # After the close, `finish` undoes the requests in its own list.
            if not self._is_closed:
                self._pending_claims.discard(pending)
                if is_to_undo:
                    self._operations.submit(pending.release_claims)

    def _start(self, pending: PendingClaim, selection: QueuesAndTypes) -> None:
        pending.poll()
        with self._lock:
            if self._is_closed or not pending.is_waiting:
                return
            waiting = self._waiting_claims.setdefault(selection, [])
            waiting.append(pending)
            if len(waiting) == 1:
                self._waiters.submit(self._wait_for_jobs, selection)

    def _wait_for_jobs(self, selection: QueuesAndTypes) -> None:
        """Wait for a notification or a share of the poll interval, then let the waiters poll."""
        with self._lock:
            waiting, share = list(self._waiting_claims[selection]), min(1.0, WAITER_THREADS / len(self._waiting_claims))
        left = max(pending.ends_at for pending in waiting) - ticks()
        try:
            self._wait(*selection, max(0.0, min(left, LONGEST_POLL * share)))
        except Exception as exc:  # noqa: BLE001 - any error is delivered to the waiters
            self._fail_waiting(selection, exc)
        # Poll in the operations pool: `close` waits for operations before it closes the store, and then for the waits.
        with self._lock:
            if not self._is_closed:
                self._operations.submit(self._poll_waiting, selection)

    def _poll_waiting(self, selection: QueuesAndTypes) -> None:
        """Poll for the waiters in order of arrival until a poll finds nothing; then wait again for the rest."""
        with self._lock:
            pending_claims = list(self._waiting_claims[selection])
        try:
            for pending in pending_claims:
                if not pending.poll():
                    break
        except Exception as exc:  # noqa: BLE001 - any error is delivered to the waiters
            self._fail_waiting(selection, exc)
        with self._lock:
            waiting = [pending for pending in self._waiting_claims.pop(selection) if pending.is_waiting]
            if waiting and not self._is_closed:
                self._waiting_claims[selection] = waiting
                self._waiters.submit(self._wait_for_jobs, selection)

    def _fail_waiting(self, selection: QueuesAndTypes, error: Exception) -> None:
        with self._lock:
            waiting = list(self._waiting_claims[selection])
        for pending in waiting:
            pending.fail(error)

    def _submit(self, function: Callable[..., object], *args: Any) -> None:
        with self._lock:
            self._require_open()
            self._operations.submit(function, *args)

    def _require_open(self) -> None:
        if self._is_closed:
            raise StoreUnavailable(self._closed_message)


class PoolRunner:
    """Runs operations in one pool of a source."""

    def __init__(self, threads: Threads, pool: AnyExecutor) -> None:
        self._threads = threads
        self._pool = pool

    async def run(self, function: Callable[[], R]) -> R:
        return await self._threads.run_in(self._pool, function)


async def run_in_new_thread(function: Callable[[], R], *, on_cancel: Callable[[], None] | None = None) -> R:
    """Run a function in a new thread. A cancel calls `on_cancel`, and is raised after the function has finished."""
    with ThreadPoolExecutor(1, "tenure-single") as executor:
        return await wait_until_done(submit(executor, function), on_cancel)


class OneShotRunner:
    """Runs each operation in a new thread."""

    async def run(self, function: Callable[[], R]) -> R:
        return await run_in_new_thread(function)


ONE_SHOT_RUNNER = OneShotRunner()


def submit(executor: AnyExecutor, function: Callable[[], R]) -> asyncio.Future[R]:
    return asyncio.wrap_future(executor.submit(copy_context().run, function))


async def wait_until_done(future: asyncio.Future[R], on_cancel: Callable[[], None] | None = None) -> R:
    """Wait for the future and return its result; raise a cancel only after the future is done."""
    cancelled: asyncio.CancelledError | None = None
    while not future.done():
        try:
            await asyncio.wait([future])
        except asyncio.CancelledError as exc:
            cancelled = exc
            if on_cancel is not None:
                on_cancel()
    if cancelled is not None:
        raise cancelled from future.exception()
    return future.result()
