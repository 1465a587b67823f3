"""The jobs that a worker has: those that wait for a slot, and those that run."""

import threading
from collections import deque
from collections.abc import Callable, Iterable, Sequence

from tenure.client.keeper import Lease
from tenure.client.run import Run


class RunQueue:
    """At most `concurrency` jobs run, of whatever kind, and they begin in the order in which they came.

    A slot that has ended a run takes the next one by itself. Only if that is of another kind, or the slot is new, is a
    run handed over; until it has begun it can be withdrawn. Safe to be used from any thread.
    """

    def __init__(self, concurrency: int, submit: Callable[[Sequence[Run]], None]) -> None:
        self.concurrency = concurrency
        self.buffered: deque[Run] = deque()
        self.running: set[Run] = set()
        self._submit = submit
        self._submitted: set[Run] = set()
        self._lock = threading.Lock()

    @property
    def size(self) -> int:
        return len(self.buffered) + len(self.running)

    def add(self, runs: Iterable[Run]) -> None:
        """Take in runs, and begin as many as may run."""
        with self._lock:
            self.buffered.extend(runs)
            free = min(self.concurrency - len(self.running), len(self.buffered))
            started = [self.buffered.popleft() for _ in range(free)]
            self.running.update(started)
            self._submitted.update(started)
        if started:
            self._submit(started)

    def mark_started(self, run: Run) -> bool:
        """Tell whether a run that was handed over is still to be run, and not to be withdrawn any more."""
        with self._lock:
            if run not in self._submitted:
                return False
            self._submitted.remove(run)
            return True

    def next_after(self, run: Run) -> Run | None:
        """Note that a run has ended, and return the next for the same slot, if there is one."""
        with self._lock:
            self.running.discard(run)
            if not self.buffered or len(self.running) >= self.concurrency:
                return None
            following = self.buffered.popleft()
            self.running.add(following)
            if following.handler.is_async is run.handler.is_async:
                return following
            self._submitted.add(following)
        self._submit([following])
        return None

    def has_buffered_since(self, since: float) -> bool:
        """Tell whether some job has waited for a slot since before that moment."""
        with self._lock:
            return bool(self.buffered) and self.buffered[0].claimed_at < since

    def find_by_lease(self, lease: Lease) -> Run | None:
        """Return the run that this lease is of, if it runs."""
        with self._lock:
            return next((run for run in self.running if run.lease is lease), None)

    def take_back_buffered(self) -> list[Run]:
        """Take back all that wait."""
        with self._lock:
            runs = list(self.buffered)
            self.buffered.clear()
            return runs

    def take_back_submitted(self) -> list[Run]:
        """Take back what was handed over and has not begun."""
        with self._lock:
            runs = list(self._submitted)
            self._submitted.clear()
            self.running.difference_update(runs)
            return runs

    def started_runs(self) -> list[Run]:
        """Return the runs whose handlers run now."""
        with self._lock:
            return list(self.running - self._submitted)

    def abandon_run(self, run: Run) -> None:
        """Count a run no more that does not end, and let another begin in its place."""
        with self._lock:
            self.running.discard(run)
        self.add([])

    def abandon_all(self) -> list[Run]:
        """Wait for no run any more; return those that had begun."""
        with self._lock:
            runs = list(self.running)
            self.running.clear()
            self._submitted.clear()
            return runs
