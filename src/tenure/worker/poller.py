"""Waits at the store for jobs to come, so that nobody has to ask it over and over."""

import threading
from collections.abc import Callable

from tenure.backends.protocol import Claiming
from tenure.client.keeper import ticks
from tenure.worker.wakeup import Bell

STEP, STEPS = 0.2, 5
"""Seconds of one wait, and how many there are before the worker looks by itself: a hint may not come."""


class Lookout:
    """A thread that waits when it is told to, and calls `found` each time that there may be something."""

    def __init__(
        self,
        store: Claiming,
        queues: tuple[str, ...] | None,
        types: tuple[str, ...],
        found: Callable[[], None],
    ) -> None:
        self._store = store
        self._queues = queues
        self._types = types
        self._found = found
        self._bell = Bell()
        self._closing = threading.Event()

    def watch(self) -> None:
        """Wait for jobs, once."""
        self._bell.ring()

    def close(self) -> None:
        """End, when the present wait is over."""
        self._closing.set()
        self._bell.ring()

    def run(self) -> None:
        while True:
            self._bell.wait()
            if self._closing.is_set():
                return
            try:
                self._wait()
            except Exception:  # noqa: BLE001 - the claimer will meet the same, and tell
                self._closing.wait(STEP)
            self._found()

    def _wait(self) -> None:
        """Wait until there may be something; in steps, so that it can be ended."""
        for _ in range(STEPS):
            started_at = ticks()
            self._store.wait(self._queues, self._types, STEP)
            if self._closing.is_set() or ticks() - started_at < STEP / 2:
                return
