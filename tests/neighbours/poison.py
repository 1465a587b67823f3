"""The exceptions of poisoned members: several that a worker could take for its own."""

import asyncio
from collections.abc import Callable
from typing import NoReturn

TEXT = "oisoned"
"""Part of the stored error of each poisoned member."""


class PoisonedTextError(Exception):
    def __str__(self) -> str:
        raise ValueError("poisoned text")


class PoisonedExit(BaseException):
    """Not an Exception."""


def _poisoned_recursion() -> BaseException:
    return _poisoned_recursion()


POISONS: tuple[Callable[[], BaseException], ...] = (
    lambda: ValueError("poisoned"),
    lambda: RuntimeError("x" * 100_000 + " poisoned"),
    PoisonedTextError,
    PoisonedExit,
    lambda: SystemExit("poisoned"),
    lambda: KeyboardInterrupt("poisoned"),
    lambda: asyncio.CancelledError("poisoned"),
    lambda: GeneratorExit("poisoned"),
    lambda: StopIteration("poisoned"),
    lambda: ValueError("poisoned \0 \udcff"),
    lambda: ExceptionGroup("poisoned", [ExceptionGroup("inner", [ValueError(n)]) for n in range(20)]),
    _poisoned_recursion,
)


def raise_poison(position: int) -> NoReturn:
    """Raise one of the exceptions, chosen by the position of the member."""
    build = POISONS[position % len(POISONS)]
    raise build()
