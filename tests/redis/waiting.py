"""Helpers for tests that wait for jobs."""

import threading
from contextlib import AbstractContextManager

from tenure.backends.redis import Redis
from tests.redis.stores import Place
from tests.stores.waiting import HOUR, LIMIT, wait_after_look
from tests.worker.looking import until

__all__ = ["HOUR", "LIMIT", "is_registered", "listen", "waiting"]


def listen(store: Redis) -> None:
    """Wait until the listener is connected."""
    store.wait(["nothing"], None, 0.01)
    until(lambda: store._waiter._listener.is_connected)


def is_registered(place: Place, store: Redis, queues: list[str] | None, types: list[str] | None = None) -> bool:
    """Return whether a waiter of this handle is registered for these queues and types."""
    waiter = store._waiter._waiter_name(store._waiter._wait_groups.group_for(queues, types))
    return place.execute("ZSCORE", place.key("waits"), waiter) is not None


def waiting(
    place: Place, store: Redis, queues: list[str] | None, types: list[str] | None = None
) -> AbstractContextManager[threading.Thread]:
    """Wait for jobs of these queues and types in a thread; return after its first poll found nothing."""
    return wait_after_look(store, queues, types, has_looked=lambda: is_registered(place, store, queues, types))
