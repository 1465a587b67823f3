"""Helpers for tests that wait for jobs."""

import threading
from contextlib import AbstractContextManager

from tenure.backends.postgres import PostgreSQL
from tests.stores.waiting import HOUR, LIMIT, wait_after_look
from tests.worker.looking import until

__all__ = ["HOUR", "LIMIT", "listen", "waiting"]


def listen(store: PostgreSQL) -> None:
    """Wait until the listener is connected."""
    store.wait(["nothing"], None, 0.01)
    until(lambda: store._waiter._listener.is_connected)


def waiting(store: PostgreSQL, *queues: str) -> AbstractContextManager[threading.Thread]:
    """Wait for jobs of these queues in a thread that has polled once and found nothing."""
    watch = store._waiter._wait_groups.group_for(queues, None)
    return wait_after_look(store, queues, has_looked=lambda: watch.notified_until)
