"""Wait for notifications of new jobs, so that the claimer need not poll an idle store."""

import threading
from collections.abc import Callable

from tenure.backends.protocol import Claiming
from tenure.client.keeper import ticks
from tenure.worker.wakeup import Wakeup

WAIT_STEP, MAX_WAIT_STEPS = 0.2, 5
"""Seconds of one wait, and the number of waits before the worker polls anyway: a notification may be lost."""


class Poller:
    """A thread that waits once each time it is armed, and calls `on_jobs` when there may be jobs."""

    def __init__(
        self,
        store: Claiming,
        queues: tuple[str, ...] | None,
        types: tuple[str, ...],
        on_jobs: Callable[[], None],
    ) -> None:
        self._store = store
        self._queues = queues
        self._types = types
        self._on_jobs = on_jobs
        self._wakeup = Wakeup()
        self._closing = threading.Event()

    def arm(self) -> None:
        """Wait for jobs once, in the poller thread."""
        self._wakeup.set()

    def close(self) -> None:
        """End the thread after the current wait."""
        self._closing.set()
        self._wakeup.set()

    def run(self) -> None:
        while True:
            self._wakeup.wait()
            if self._closing.is_set():
                return
            try:
                self._wait_for_jobs()
            except Exception:  # noqa: BLE001 - the claimer meets the same error and logs it
                self._closing.wait(WAIT_STEP)
            self._on_jobs()

    def _wait_for_jobs(self) -> None:
        """Wait until there may be jobs; in steps, so that `close` takes effect soon."""
        for _ in range(MAX_WAIT_STEPS):
            started_at = ticks()
            self._store.wait(self._queues, self._types, WAIT_STEP)
            if self._closing.is_set() or ticks() - started_at < WAIT_STEP / 2:
                return
