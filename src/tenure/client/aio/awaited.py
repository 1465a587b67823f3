"""A verb for async code: the synchronous one, called in a thread and awaited, one hop a call."""

import asyncio
from collections.abc import Callable, Coroutine, Iterator
from functools import partial, wraps
from typing import TYPE_CHECKING, Any, Concatenate, NoReturn, ParamSpec, Protocol, TypeVar

from tenure.client.aio.threads import Runs, run_alone
from tenure.connections.caller import awaited_on

S = TypeVar("S")
S_co = TypeVar("S_co", covariant=True)
P = ParamSpec("P")
R = TypeVar("R")


class Twin(Protocol[S_co]):
    """What has a synchronous other half, and the threads in which that is used."""

    @property
    def sync(self) -> S_co: ...

    @property
    def threads(self) -> Runs: ...


def awaited(
    verb: Callable[Concatenate[S, P], R], *, reads: bool = False
) -> Callable[Concatenate[Twin[S], P], Coroutine[Any, Any, R]]:
    """Return the same verb, awaited: of the same name, with the same options.

    One that `reads` takes several of something, perhaps from a generator. That is read first, in the caller's thread:
    what it draws on may belong there.
    """

    @wraps(verb)
    async def call(self: Twin[S], /, *args: P.args, **options: P.kwargs) -> R:
        if reads:
            args = tuple(_read(each) for each in args)  # type: ignore[assignment]
            options = {name: _read(each) for name, each in options.items()}  # type: ignore[assignment]
        connection = options.get("connection")
        if connection is None:
            return await self.threads.run(partial(verb, self.sync, *args, **options))
        joined = awaited_on(asyncio.get_running_loop(), connection)
        if joined is None:
            # It is the caller's, and belongs to the caller's thread.
            return verb(self.sync, *args, **options)
        options["connection"] = joined
        # In a thread of its own: all others may be waiting for the end of the transaction that this is part of.
        return await run_alone(partial(verb, self.sync, *args, **options), on_cancel=joined.cancel)

    return call


def _read(value: object) -> object:
    return list(value) if isinstance(value, Iterator) else value


class OnlyAsync:
    __slots__ = ()

    if not TYPE_CHECKING:  # a type checker says it by itself

        def __enter__(self) -> NoReturn:
            raise TypeError(f"{type(self).__name__} is for async code: use `async with`, or `with` on its `.sync`")

        def __exit__(self, *ending: object) -> None: ...
