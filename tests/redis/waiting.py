"""Waiting for jobs, as tests see it from outside."""

import threading
from collections.abc import Iterator
from contextlib import contextmanager

from tenure.backends.redis import Redis
from tests.redis.stores import Place
from tests.worker.looking import until

LONG = 30.0
HOUR = 3600.0


def listen(store: Redis) -> None:
    """Wait until wake-ups are heard."""
    store.wait(["nothing"], None, 0.01)
    until(lambda: store._wakeups._listener.hears)


def stands(place: Place, store: Redis, queue: str) -> bool:
    """Tell whether somebody stands among those who are woken, on this handle, for this queue."""
    watch = store._wakeups._watches.of([queue], None)
    return place.execute("ZSCORE", place.key("waits"), store._wakeups._waiter(watch)) is not None


@contextmanager
def waiting(place: Place, store: Redis, queue: str) -> Iterator[threading.Thread]:
    """Wait for jobs of this queue, in a thread that has looked and found nothing."""
    thread = threading.Thread(target=store.wait, args=([queue], None, HOUR), daemon=True)
    thread.start()
    until(lambda: stands(place, store, queue))
    yield thread
    thread.join(LONG)
