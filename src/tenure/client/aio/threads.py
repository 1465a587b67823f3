"""The threads in which awaited calls reach the store.

Not the event loop's own: those end with the loop, and the caller may have filled them. A few do operations. A few more
do nothing but wait for jobs, each on behalf of all who want the same: however many coroutines wait, an operation finds
a thread. All end with `close`; without it, a program that ends waits only for what is under way.
"""

import asyncio
import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from contextvars import copy_context
from typing import Any, Protocol, TypeVar

from tenure.client.aio.pending_claim import Found, Look
from tenure.client.keeper import ticks
from tenure.client.source import LONGEST_POLL
from tenure.errors import StoreUnavailable

R = TypeVar("R")

Wanted = tuple[tuple[str, ...] | None, tuple[str, ...] | None]
"""The queues and the types that a claim asks for."""

Wait = Callable[[tuple[str, ...] | None, tuple[str, ...] | None, float], None]

OPERATIONS = 8
LOOKOUTS = 4
"""How many waits go on at once. Where more different ones are wanted, they take turns within a second."""


class Runs(Protocol):
    """Where an operation can be run to its end."""

    async def run(self, function: Callable[[], R]) -> R: ...


class Threads:
    """Those of one source in one process. None is started before it is needed."""

    def __init__(self, wait: Wait, closed: str) -> None:
        self._wait = wait
        self._closed = closed
        self._operations = ThreadPoolExecutor(OPERATIONS, "tenure-operation")
        self._lookouts = ThreadPoolExecutor(LOOKOUTS, "tenure-lookout")
        # Reentrant: a coroutine that is collected as garbage may come here from anywhere.
        self._lock = threading.RLock()
        self._is_closed = False
        self._looks: set[Look] = set()
        self._watches: dict[Wanted, list[Look]] = {}

    async def run(self, function: Callable[[], R]) -> R:
        """Run an operation. It always comes to its end: a cancel is raised only after that."""
        with self._lock:
            answer = None if self._is_closed else hop(self._operations, function)
        # A block may be left after the close: the synchronous twin knows what that means.
        return await (run_alone(function) if answer is None else ended(answer))

    async def take(self, find: Callable[[], Found], wanted: Wanted, ends_at: float) -> Found:
        """Claim, looking again until that time. If this is cancelled, what is found is given back."""
        look = Look(find, ends_at, self._closed)
        with self._lock:
            self._must_be_open()
            self._looks.add(look)
        try:
            # Read before the look begins: with no time left here, that look knows that it is the last.
            left = ends_at - ticks()
            self._submit(self._begin, look, wanted)
            if left > 0 and not await look.wait(left):
                look.ends_at = ticks()
                self._submit(look.run)
            await look.wait()
            claims = look.take()
        except BaseException:
            self._leave(look)
            raise
        self._looks.discard(look)
        return claims

    def finish(self) -> None:
        """Turn away all who wait, and let everything come to its end that needs the store."""
        with self._lock:
            self._is_closed = True
            looks = list(self._looks)
        for look in looks:
            look.close()
        self._operations.shutdown()

    def join(self) -> None:
        """See the last threads end; the store, being closed, has woken them."""
        self._lookouts.shutdown()

    def _leave(self, look: Look) -> None:
        is_to_undo = look.leave()
        with self._lock:
            # While it is closed, `finish` undoes it, and has it in its list.
            if not self._is_closed:
                self._looks.discard(look)
                if is_to_undo:
                    self._operations.submit(look.undo)

    def _begin(self, look: Look, wanted: Wanted) -> None:
        look.run()
        with self._lock:
            if self._is_closed or not look.is_waiting:
                return
            watch = self._watches.setdefault(wanted, [])
            watch.append(look)
            if len(watch) == 1:
                self._lookouts.submit(self._watch, wanted)

    def _watch(self, wanted: Wanted) -> None:
        """Wait, in turn with the other watches, until there may be something for the first in line."""
        with self._lock:
            looks, share = list(self._watches[wanted]), min(1.0, LOOKOUTS / len(self._watches))
        left = max(look.ends_at for look in looks) - ticks()
        try:
            self._wait(*wanted, max(0.0, min(left, LONGEST_POLL * share)))
        except Exception as exc:  # noqa: BLE001 - those who wait are told, whatever it is
            self._fail(wanted, exc)
        # The look itself is an operation: a close waits for those, before the store is closed, and then for the waits.
        with self._lock:
            if not self._is_closed:
                self._operations.submit(self._serve, wanted)

    def _serve(self, wanted: Wanted) -> None:
        """Let them look in the order they came, until one finds nothing; then watch again for those who are left."""
        with self._lock:
            looks = list(self._watches[wanted])
        try:
            for look in looks:
                if not look.run():
                    break
        except Exception as exc:  # noqa: BLE001 - the same
            self._fail(wanted, exc)
        with self._lock:
            waiting = [look for look in self._watches.pop(wanted) if look.is_waiting]
            if waiting and not self._is_closed:
                self._watches[wanted] = waiting
                self._lookouts.submit(self._watch, wanted)

    def _fail(self, wanted: Wanted, error: Exception) -> None:
        with self._lock:
            looks = list(self._watches[wanted])
        for look in looks:
            look.fail(error)

    def _submit(self, function: Callable[..., object], *args: Any) -> None:
        with self._lock:
            self._must_be_open()
            self._operations.submit(function, *args)

    def _must_be_open(self) -> None:
        if self._is_closed:
            raise StoreUnavailable(self._closed)


async def run_alone(function: Callable[[], R], *, on_cancel: Callable[[], None] | None = None) -> R:
    """Run a function in a thread of its own, which ends with it. If this is cancelled, `on_cancel` may hurry it."""
    with ThreadPoolExecutor(1, "tenure-single") as executor:
        return await ended(hop(executor, function), on_cancel)


class Alone:
    """Runs each operation in a thread of its own."""

    async def run(self, function: Callable[[], R]) -> R:
        return await run_alone(function)


ALONE = Alone()


def hop(executor: ThreadPoolExecutor, function: Callable[[], R]) -> asyncio.Future[R]:
    return asyncio.wrap_future(executor.submit(copy_context().run, function))


async def ended(answer: asyncio.Future[R], on_cancel: Callable[[], None] | None = None) -> R:
    """Return the answer; if this is cancelled, however often, raise that when the answer is there."""
    cancelled: asyncio.CancelledError | None = None
    while not answer.done():
        try:
            await asyncio.wait([answer])
        except asyncio.CancelledError as exc:
            cancelled = exc
            if on_cancel is not None:
                on_cancel()
    if cancelled is not None:
        raise cancelled from answer.exception()
    return answer.result()
