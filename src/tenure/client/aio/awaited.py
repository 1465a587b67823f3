"""Turn a sync method into a coroutine that runs it in a thread, one thread hop a call."""

import asyncio
from collections.abc import Callable, Coroutine, Iterator
from functools import partial, wraps
from typing import TYPE_CHECKING, Any, Concatenate, NoReturn, ParamSpec, Protocol, TypeVar

from tenure.client.aio.threads import ThreadRunner, run_in_new_thread
from tenure.connections.caller import adapt_async_connection

S = TypeVar("S")
S_co = TypeVar("S_co", covariant=True)
P = ParamSpec("P")
R = TypeVar("R")


class AsyncFacade(Protocol[S_co]):
    """An async facade: a sync object, and the threads that call it."""

    @property
    def sync(self) -> S_co: ...

    @property
    def threads(self) -> ThreadRunner: ...


def async_method(
    method: Callable[Concatenate[S, P], R], *, reads_iterators: bool = False
) -> Callable[Concatenate[AsyncFacade[S], P], Coroutine[Any, Any, R]]:
    """Return a coroutine function with the name and the options of a sync method.

    With `reads_iterators`, arguments that are iterators are read first, in the caller's thread: a generator may use
    objects that belong to that thread.
    """

    @wraps(method)
    async def call(self: AsyncFacade[S], /, *args: P.args, **options: P.kwargs) -> R:
        if reads_iterators:
            args = tuple(_read_iterator(each) for each in args)  # type: ignore[assignment]
            options = {name: _read_iterator(each) for name, each in options.items()}  # type: ignore[assignment]
        connection = options.get("connection")
        if connection is None:
            return await self.threads.run(partial(method, self.sync, *args, **options))
        joined = adapt_async_connection(asyncio.get_running_loop(), connection)
        if joined is None:
            # A sync connection belongs to the caller's thread.
            return method(self.sync, *args, **options)
        options["connection"] = joined
        # In a new thread: all pool threads may be waiting for the end of the caller's transaction.
        return await run_in_new_thread(partial(method, self.sync, *args, **options), on_cancel=joined.cancel)

    return call


def _read_iterator(value: object) -> object:
    return list(value) if isinstance(value, Iterator) else value


class AsyncOnly:
    __slots__ = ()

    if not TYPE_CHECKING:  # type checkers report a missing __enter__ themselves

        def __enter__(self) -> NoReturn:
            raise TypeError(f"{type(self).__name__} is async: use `async with`, or use `with` on its `.sync`")

        def __exit__(self, *ending: object) -> None: ...
