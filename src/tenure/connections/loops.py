"""An async connection of the caller's, used by code that does not await.

That code runs in a thread, while the caller awaits its end on the event loop: each statement hops back to the loop,
where the connection belongs, and the thread waits for the answer.
"""

import asyncio
import concurrent.futures
import threading
from collections.abc import Callable, Coroutine
from concurrent.futures import Future
from typing import Any, Protocol, TypeVar

R = TypeVar("R")


class AsyncCallerConnection(Protocol):
    """As a `Caller`, but its statements have to be awaited."""

    async def execute(self, text: str, asked: str) -> str | None: ...

    def transaction_check(self) -> Callable[[], bool]: ...

    def after_commit(self, callback: Callable[[], None]) -> None: ...


class LoopConnection:
    """A `Caller` for the threads beside an event loop."""

    def __init__(self, loop: asyncio.AbstractEventLoop, connection: object, adapter: AsyncCallerConnection) -> None:
        self.connection = connection
        self._loop = loop
        self._adapter = adapter
        self._lock = threading.Lock()
        self._running: Future[str | None] | None = None
        self._is_cancelled = False

    def __eq__(self, other: object) -> bool:
        return isinstance(other, LoopConnection) and other.connection is self.connection

    def __hash__(self) -> int:
        return hash(id(self.connection))

    def __repr__(self) -> str:
        return repr(self.connection)

    def execute(self, text: str, asked: str) -> str | None:
        with self._lock:
            if self._is_cancelled:
                raise asyncio.CancelledError
            self._running = asyncio.run_coroutine_threadsafe(self._adapter.execute(text, asked), self._loop)
        return wait_for_result(self._running)

    def cancel(self) -> None:
        """End a statement that may be waiting for somebody else's transaction, and begin no other."""
        with self._lock:
            self._is_cancelled = True
            if self._running is not None:
                self._running.cancel()

    def transaction_check(self) -> Callable[[], bool]:
        return self._adapter.transaction_check()

    def after_commit(self, callback: Callable[[], None]) -> None:
        self._adapter.after_commit(callback)


def run_on_loop(loop: asyncio.AbstractEventLoop, coroutine: Coroutine[Any, Any, R]) -> R:
    """Run a coroutine on that loop, and wait for its end; in any thread but the loop's own."""
    return wait_for_result(asyncio.run_coroutine_threadsafe(coroutine, loop))


def wait_for_result(future: "Future[R]") -> R:
    try:
        return future.result()
    except concurrent.futures.CancelledError as exc:
        # That one is an Exception, and would be taken for a failure of the work.
        raise asyncio.CancelledError from exc
