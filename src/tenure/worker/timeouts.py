"""Enforce the time limits of synchronous handlers.

Runs in its own thread, so that a blocked event loop does not delay a limit. The thread exists only while a running
handler has a limit.
"""

import threading
from collections.abc import Callable

from tenure.client.keeper import ticks
from tenure.client.run import Run, StopReason


class Timeouts:
    def __init__(self, stop: Callable[[Run, StopReason], None]) -> None:
        self._stop = stop
        self._ends_at: dict[Run, float] = {}
        self._changed = threading.Condition()
        self._thread: threading.Thread | None = None

    def add(self, run: Run, ends_at: float) -> None:
        """Stop a run at `ends_at`, unless `discard` is called before."""
        with self._changed:
            self._ends_at[run] = ends_at
            if self._thread is None:
                self._thread = threading.Thread(target=self._watch, name="tenure-timeouts", daemon=True)
                self._thread.start()
            elif ends_at <= min(self._ends_at.values()):
                self._changed.notify()

    def discard(self, run: Run) -> None:
        with self._changed:
            self._ends_at.pop(run, None)

    def close(self) -> None:
        """Wake the thread, so that it ends if no limit is left."""
        with self._changed:
            self._changed.notify()

    def _watch(self) -> None:
        while True:
            with self._changed:
                now = ticks()
                expired = [run for run, ends_at in self._ends_at.items() if ends_at <= now]
                for run in expired:
                    del self._ends_at[run]
                if not expired:
                    next_at = min(self._ends_at.values(), default=None)
                    if next_at is None:
                        self._thread = None
                        return
                    self._changed.wait(next_at - now)
            for run in expired:
                self._stop(run, StopReason.TIME_LIMIT)
