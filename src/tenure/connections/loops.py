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


class AwaitedCaller(Protocol):
    """As a `Caller`, but its statements have to be awaited."""

    async def ask(self, text: str, asked: str) -> str | None: ...

    def in_transaction(self) -> Callable[[], bool]: ...

    def after_commit(self, call: Callable[[], None]) -> None: ...


class OnLoop:
    """A `Caller` for the threads beside an event loop."""

    def __init__(self, loop: asyncio.AbstractEventLoop, connection: object, adapted: AwaitedCaller) -> None:
        self.connection = connection
        self._loop = loop
        self._adapted = adapted
        self._lock = threading.Lock()
        self._asking: Future[str | None] | None = None
        self._is_cancelled = False

    def __eq__(self, other: object) -> bool:
        return isinstance(other, OnLoop) and other.connection is self.connection

    def __hash__(self) -> int:
        return hash(id(self.connection))

    def __repr__(self) -> str:
        return repr(self.connection)

    def ask(self, text: str, asked: str) -> str | None:
        with self._lock:
            if self._is_cancelled:
                raise asyncio.CancelledError
            self._asking = asyncio.run_coroutine_threadsafe(self._adapted.ask(text, asked), self._loop)
        return answer_of(self._asking)

    def cancel(self) -> None:
        """End a statement that may be waiting for somebody else's transaction, and begin no other."""
        with self._lock:
            self._is_cancelled = True
            if self._asking is not None:
                self._asking.cancel()

    def in_transaction(self) -> Callable[[], bool]:
        return self._adapted.in_transaction()

    def after_commit(self, call: Callable[[], None]) -> None:
        self._adapted.after_commit(call)


def hop(loop: asyncio.AbstractEventLoop, coroutine: Coroutine[Any, Any, R]) -> R:
    """Run a coroutine on that loop, and wait for its end; in any thread but the loop's own."""
    return answer_of(asyncio.run_coroutine_threadsafe(coroutine, loop))


def answer_of(future: "Future[R]") -> R:
    try:
        return future.result()
    except concurrent.futures.CancelledError as exc:
        # That one is an Exception, and would be taken for a failure of the work.
        raise asyncio.CancelledError from exc
