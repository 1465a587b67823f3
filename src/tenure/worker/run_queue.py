"""The jobs that a worker has: those that wait for a slot, and those that run."""

import threading
from collections import deque
from collections.abc import Callable, Iterable, Sequence

from tenure.client.keeper import Lease
from tenure.client.run import Run


class Board:
    """At most `concurrency` jobs run, of whatever kind, and they begin in the order in which they came.

    A slot that has ended a run takes the next one by itself. Only if that is of another kind, or the slot is new, is a
    run handed over; until it has begun it can be withdrawn. Safe to be used from any thread.
    """

    def __init__(self, concurrency: int, hand_over: Callable[[Sequence[Run]], None]) -> None:
        self.concurrency = concurrency
        self.waiting: deque[Run] = deque()
        self.running: set[Run] = set()
        self._hand_over = hand_over
        self._handed: set[Run] = set()
        self._lock = threading.Lock()

    @property
    def size(self) -> int:
        return len(self.waiting) + len(self.running)

    def add(self, runs: Iterable[Run]) -> None:
        """Take in runs, and begin as many as may run."""
        with self._lock:
            self.waiting.extend(runs)
            free = min(self.concurrency - len(self.running), len(self.waiting))
            started = [self.waiting.popleft() for _ in range(free)]
            self.running.update(started)
            self._handed.update(started)
        if started:
            self._hand_over(started)

    def begin(self, run: Run) -> bool:
        """Tell whether a run that was handed over is still to be run, and not to be withdrawn any more."""
        with self._lock:
            if run not in self._handed:
                return False
            self._handed.remove(run)
            return True

    def next_after(self, run: Run) -> Run | None:
        """Note that a run has ended, and return the next for the same slot, if there is one."""
        with self._lock:
            self.running.discard(run)
            if not self.waiting or len(self.running) >= self.concurrency:
                return None
            following = self.waiting.popleft()
            self.running.add(following)
            if following.handler.is_async is run.handler.is_async:
                return following
            self._handed.add(following)
        self._hand_over([following])
        return None

    def has_waited(self, since: float) -> bool:
        """Tell whether some job has waited for a slot since before that moment."""
        with self._lock:
            return bool(self.waiting) and self.waiting[0].claimed_at < since

    def run_with(self, lease: Lease) -> Run | None:
        """Return the run that this lease is of, if it runs."""
        with self._lock:
            return next((run for run in self.running if run.lease is lease), None)

    def withdraw_waiting(self) -> list[Run]:
        """Take back all that wait."""
        with self._lock:
            runs = list(self.waiting)
            self.waiting.clear()
            return runs

    def withdraw_handed(self) -> list[Run]:
        """Take back what was handed over and has not begun."""
        with self._lock:
            runs = list(self._handed)
            self._handed.clear()
            self.running.difference_update(runs)
            return runs

    def begun(self) -> list[Run]:
        """Return the runs whose handlers run now."""
        with self._lock:
            return list(self.running - self._handed)

    def give_up(self, run: Run) -> None:
        """Count a run no more that does not end, and let another begin in its place."""
        with self._lock:
            self.running.discard(run)
        self.add([])

    def abandon(self) -> list[Run]:
        """Wait for no run any more; return those that had begun."""
        with self._lock:
            runs = list(self.running)
            self.running.clear()
            self._handed.clear()
            return runs
