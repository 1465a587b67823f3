"""Waiting for jobs, as tests see it from outside."""

import threading
from collections.abc import Iterator
from contextlib import contextmanager

from tenure.backends.postgres import PostgreSQL
from tests.worker.looking import until

LONG = 30.0
HOUR = 3600.0


def listen(store: PostgreSQL) -> None:
    """Wait until wake-ups are heard."""
    store.wait(["nothing"], None, 0.01)
    until(lambda: store._wakeups._listener.hears)


@contextmanager
def waiting(store: PostgreSQL, *queues: str) -> Iterator[threading.Thread]:
    """Wait for jobs of these queues, in a thread that has looked and found nothing."""
    watch = store._wakeups._watches.of(queues, None)
    thread = threading.Thread(target=store.wait, args=(queues, None, HOUR), daemon=True)
    thread.start()
    until(lambda: watch.told_until)
    yield thread
    thread.join(LONG)
