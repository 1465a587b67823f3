"""Wait for jobs in a thread, for longer than any test runs: the wait ends only if the store ends it."""

import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager

from tenure.backends.protocol import Claiming
from tests.worker.looking import until

HOUR = 3600.0

LIMIT = 60.0
"""Seconds that a wait may take to end; a test that waits longer has failed."""


def started_wait(store: Claiming, queues: Sequence[str] | None, types: Sequence[str] | None = None) -> threading.Thread:
    """Return a thread that waits for jobs of these queues and types for an hour."""
    thread = threading.Thread(target=store.wait, args=(queues, types, HOUR), daemon=True)
    thread.start()
    return thread


@contextmanager
def wait_after_look(
    store: Claiming,
    queues: Sequence[str] | None,
    types: Sequence[str] | None = None,
    *,
    has_looked: Callable[[], object],
) -> Iterator[threading.Thread]:
    """Yield a thread whose wait has polled the store without success; end the wait afterwards."""
    thread = started_wait(store, queues, types)
    until(has_looked)
    assert thread.is_alive(), "the wait ended before the test did anything"
    yield thread
    thread.join(LIMIT)
