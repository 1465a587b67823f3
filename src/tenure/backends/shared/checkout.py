"""Who uses one of a number of connections, and who waits for one."""

import threading
import time
import weakref
from contextlib import suppress
from queue import Empty, SimpleQueue
from typing import Generic, TypeVar

T = TypeVar("T")

LOOK_AGAIN = 0.05
"""Seconds after which one who waits for a connection looks for one, even if nobody said that there is."""


class Loan(Generic[T]):
    """The use of a connection. An interrupt may keep it from being given back: then it ends with this object.

    For the same reason a semaphore would not do: Python interrupts it between counting and telling.
    """

    wire: T


class Lending(Generic[T]):
    def __init__(self, most: int) -> None:
        self._most = most
        self._lock = threading.Lock()
        self._loans: weakref.WeakSet[Loan[T]] = weakref.WeakSet()
        self._given_back: SimpleQueue[None] = SimpleQueue()

    @property
    def loans(self) -> list[Loan[T]]:
        return list(self._loans)

    def has_lent_within(self, timeout: float, loan: Loan[T]) -> bool:
        """Wait until this may be one of those who use a connection; tell whether it may."""
        if self.has_lent(loan):
            return True
        ends_at = time.monotonic() + timeout
        while (left := ends_at - time.monotonic()) > 0:
            # One call may stand for several who gave back, and one who was interrupted did not call.
            with suppress(Empty):
                self._given_back.get(timeout=min(left, LOOK_AGAIN))
            if self.has_lent(loan):
                return True
        return False

    def has_lent(self, loan: Loan[T]) -> bool:
        """Tell whether this may be one of those who use a connection, and if so, is from now on."""
        with self._lock:
            has_room = len(self._loans) < self._most
            if has_room:
                self._loans.add(loan)
        return has_room

    def end(self, loan: Loan[T]) -> None:
        with self._lock:
            self._loans.discard(loan)
        if self._given_back.empty():
            self._given_back.put(None)
