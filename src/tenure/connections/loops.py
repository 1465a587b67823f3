"""An async connection of the caller's, used by code that does not await.

That code runs in a thread, while the caller awaits its end on the event loop: each statement hops back to the loop,
where the connection belongs, and the thread waits for the answer.
"""

import asyncio
import concurrent.futures
from collections.abc import Callable, Coroutine
from typing import Any, Protocol, TypeVar

R = TypeVar("R")


class AwaitedCaller(Protocol):
    """As a `Caller`, but its statements have to be awaited."""

    async def ask(self, text: str, asked: str) -> str | None: ...

    def in_transaction(self) -> Callable[[], bool]: ...

    def after_commit(self, call: Callable[[], None]) -> None: ...


class OnLoop:
    """A `Caller` for the threads beside an event loop."""

    def __init__(self, loop: asyncio.AbstractEventLoop, connection: AwaitedCaller) -> None:
        self._loop = loop
        self._connection = connection

    def __repr__(self) -> str:
        return repr(self._connection)

    def ask(self, text: str, asked: str) -> str | None:
        return hop(self._loop, self._connection.ask(text, asked))

    def in_transaction(self) -> Callable[[], bool]:
        return self._connection.in_transaction()

    def after_commit(self, call: Callable[[], None]) -> None:
        self._connection.after_commit(call)


def hop(loop: asyncio.AbstractEventLoop, coroutine: Coroutine[Any, Any, R]) -> R:
    """Run a coroutine on that loop, and wait for its end; in any thread but the loop's own."""
    try:
        return asyncio.run_coroutine_threadsafe(coroutine, loop).result()
    except concurrent.futures.CancelledError as exc:
        # That one is an Exception, and would be taken for a failure of the work.
        raise asyncio.CancelledError from exc
