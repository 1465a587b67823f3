"""Use an async connection of the caller from sync code.

The sync code runs in a thread while the caller awaits the thread on the event loop. Each statement runs on the event
loop, to which the connection belongs; the thread waits for the result.
"""

import asyncio
import concurrent.futures
import threading
from collections.abc import Callable, Coroutine
from concurrent.futures import Future
from typing import Any, Protocol, TypeVar

R = TypeVar("R")


class AsyncCallerConnection(Protocol):
    """A `CallerConnection` whose statements are awaited."""

    async def execute(self, text: str, request: str) -> str | None: ...

    def transaction_check(self) -> Callable[[], bool]: ...

    def after_commit(self, callback: Callable[[], None]) -> None: ...


class LoopConnection:
    """A `CallerConnection` for threads, which runs statements on the event loop."""

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

    def execute(self, text: str, request: str) -> str | None:
        with self._lock:
            if self._is_cancelled:
                raise asyncio.CancelledError
            self._running = asyncio.run_coroutine_threadsafe(self._adapter.execute(text, request), self._loop)
        return wait_for_result(self._running)

    def cancel(self) -> None:
        """Cancel the running statement, which may wait for a lock, and start no other."""
        with self._lock:
            self._is_cancelled = True
            if self._running is not None:
                self._running.cancel()

    def transaction_check(self) -> Callable[[], bool]:
        return self._adapter.transaction_check()

    def after_commit(self, callback: Callable[[], None]) -> None:
        self._adapter.after_commit(callback)


def run_on_loop(loop: asyncio.AbstractEventLoop, coroutine: Coroutine[Any, Any, R]) -> R:
    """Run a coroutine on the loop and return its result. Not to be called in the loop's own thread."""
    return wait_for_result(asyncio.run_coroutine_threadsafe(coroutine, loop))


def wait_for_result(future: "Future[R]") -> R:
    try:
        return future.result()
    except concurrent.futures.CancelledError as exc:
        # The class of concurrent.futures is an Exception, so callers would treat it as a failure of the work.
        raise asyncio.CancelledError from exc
