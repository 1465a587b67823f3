"""Who uses one of a number of connections, and who waits for one."""

import threading
import time
import weakref
from contextlib import suppress
from queue import Empty, SimpleQueue
from typing import Generic, TypeVar

T = TypeVar("T")

RECHECK_INTERVAL = 0.05
"""Seconds after which one who waits for a connection looks for one, even if nobody said that there is."""


class Checkout(Generic[T]):
    """The use of a connection. An interrupt may keep it from being given back: then it ends with this object.

    For the same reason a semaphore would not do: Python interrupts it between counting and telling.
    """

    connection: T


class CheckoutLimit(Generic[T]):
    def __init__(self, limit: int) -> None:
        self._limit = limit
        self._lock = threading.Lock()
        self._checkouts: weakref.WeakSet[Checkout[T]] = weakref.WeakSet()
        self._released: SimpleQueue[None] = SimpleQueue()

    @property
    def checkouts(self) -> list[Checkout[T]]:
        return list(self._checkouts)

    def acquire_within(self, timeout: float, checkout: Checkout[T]) -> bool:
        """Wait until this may be one of those who use a connection; tell whether it may."""
        if self.try_acquire(checkout):
            return True
        ends_at = time.monotonic() + timeout
        while (left := ends_at - time.monotonic()) > 0:
            # One call may stand for several who gave back, and one who was interrupted did not call.
            with suppress(Empty):
                self._released.get(timeout=min(left, RECHECK_INTERVAL))
            if self.try_acquire(checkout):
                return True
        return False

    def try_acquire(self, checkout: Checkout[T]) -> bool:
        """Tell whether this may be one of those who use a connection, and if so, is from now on."""
        with self._lock:
            has_room = len(self._checkouts) < self._limit
            if has_room:
                self._checkouts.add(checkout)
        return has_room

    def release(self, checkout: Checkout[T]) -> None:
        with self._lock:
            self._checkouts.discard(checkout)
        if self._released.empty():
            self._released.put(None)
