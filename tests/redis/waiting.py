"""Waiting for jobs, as tests see it from outside."""

import threading
from contextlib import AbstractContextManager

from tenure.backends.redis import Redis
from tests.redis.stores import Place
from tests.stores.waiting import HOUR, LIMIT, wait_after_look
from tests.worker.looking import until

__all__ = ["HOUR", "LIMIT", "is_registered", "listen", "waiting"]


def listen(store: Redis) -> None:
    """Wait until wake-ups are heard."""
    store.wait(["nothing"], None, 0.01)
    until(lambda: store._waiter._listener.is_connected)


def is_registered(place: Place, store: Redis, queues: list[str] | None, types: list[str] | None = None) -> bool:
    """Tell whether the server would wake a wait of this handle for these queues and types."""
    waiter = store._waiter._waiter_name(store._waiter._wait_groups.group_for(queues, types))
    return place.execute("ZSCORE", place.key("waits"), waiter) is not None


def waiting(
    place: Place, store: Redis, queues: list[str] | None, types: list[str] | None = None
) -> AbstractContextManager[threading.Thread]:
    """Wait for jobs of these queues and types, in a thread that has looked and found nothing."""
    return wait_after_look(store, queues, types, has_looked=lambda: is_registered(place, store, queues, types))
