"""The threads that wait for jobs."""

import threading
from collections.abc import Sequence


class Waiter:
    __slots__ = ("_event", "_queues", "_types")

    def __init__(self, queues: Sequence[str] | None, types: Sequence[str] | None) -> None:
        self._queues = queues
        self._types = types
        self._event = threading.Event()

    def wants(self, queue: str, type: str) -> bool:
        return (self._queues is None or queue in self._queues) and (self._types is None or type in self._types)

    def wake(self) -> None:
        self._event.set()

    def sleep(self, timeout: float) -> None:
        self._event.wait(timeout)


class Waiters:
    """The waiting threads. The caller holds the store's lock, except while it sleeps."""

    def __init__(self) -> None:
        self._waiting: list[Waiter] = []

    def add(self, waiter: Waiter) -> None:
        self._waiting.append(waiter)

    def discard(self, waiter: Waiter) -> None:
        if waiter in self._waiting:
            self._waiting.remove(waiter)

    def wake(self, queue: str, type: str, *, is_due: bool) -> None:
        """Wake one waiter for a due job. Wake all waiters that want a scheduled job, since all must note its time."""
        for waiter in [each for each in self._waiting if each.wants(queue, type)][: 1 if is_due else None]:
            self._waiting.remove(waiter)
            waiter.wake()

    def wake_all(self) -> None:
        for waiter in self._waiting:
            waiter.wake()
        self._waiting.clear()
