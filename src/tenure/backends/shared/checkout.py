"""Limit the number of connections in use, and wait for a free one."""

import threading
import time
import weakref
from contextlib import suppress
from queue import Empty, SimpleQueue
from typing import Generic, TypeVar

T = TypeVar("T")

RECHECK_INTERVAL = 0.05
"""Seconds between two checks for a free connection, if no notification arrives."""


class Checkout(Generic[T]):
    """A connection in use.

    An interrupt may prevent the release. The checkout then ends when this object is garbage-collected. A semaphore
    would not survive this: after an interrupt between its count and its notification, a free connection stays unused.
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
        """Wait until fewer than `limit` checkouts are open, and add this one. Return False after `timeout` seconds."""
        if self.try_acquire(checkout):
            return True
        ends_at = time.monotonic() + timeout
        while (left := ends_at - time.monotonic()) > 0:
            # A notification may stand for several releases, and an interrupted release sends none.
            with suppress(Empty):
                self._released.get(timeout=min(left, RECHECK_INTERVAL))
            if self.try_acquire(checkout):
                return True
        return False

    def try_acquire(self, checkout: Checkout[T]) -> bool:
        """Add this checkout if fewer than `limit` are open. Return whether it was added."""
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
