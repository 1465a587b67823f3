"""Stores that block at a chosen point, and helpers to drive an event loop step by step."""

import asyncio
import threading
from collections.abc import Callable
from typing import Any

from tenure.backends.memory import Memory

PATIENCE = 120.0


class Gate:
    """Blocks one operation of a store, before or after it runs, until the gate is opened."""

    def __init__(self, store: Memory, operation: str, *, is_behind: bool = False, passes: int = 0) -> None:
        self._reached = threading.Event()
        self._opened = threading.Event()
        self._operation = getattr(store, operation)
        self._is_behind = is_behind
        self._passes = passes
        setattr(store, operation, self._pass)

    @property
    def is_reached(self) -> bool:
        return self._reached.is_set()

    def open(self) -> None:
        self._opened.set()

    def _pass(self, *args: Any) -> Any:
        if self._passes > 0:
            self._passes -= 1
            return self._operation(*args)
        if not self._is_behind:
            self._stop()
            return self._operation(*args)
        answer = self._operation(*args)
        self._stop()
        return answer

    def _stop(self) -> None:
        self._reached.set()
        is_opened = self._opened.wait(PATIENCE)
        # Callers that are still blocked must not wait as long again.
        self._opened.set()
        assert is_opened, "the gate was never opened"


async def steps(number: int) -> None:
    """Run the event loop for so many iterations."""
    for _ in range(number):
        await asyncio.sleep(0)


async def until(condition: Callable[[], bool]) -> None:
    """Run the event loop until the condition holds."""
    async with asyncio.timeout(PATIENCE):
        while not condition():  # noqa: ASYNC110 - it may come true in a thread
            await asyncio.sleep(0)


def our_threads() -> list[str]:
    """Return the live threads of all async facades."""
    names = ("tenure-operation", "tenure-waiter", "tenure-single")
    return sorted(each.name for each in threading.enumerate() if each.name.startswith(names))
