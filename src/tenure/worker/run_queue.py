"""The buffered and the running jobs of a worker."""

import threading
from collections import deque
from collections.abc import Callable, Iterable, Sequence

from tenure.client.keeper import Lease
from tenure.client.run import Run


class RunQueue:
    """Start runs in order, at most `concurrency` at a time, async and sync together.

    A slot that has finished a run takes the next one itself. A run is submitted to an executor only if it needs a slot
    of the other kind (async or sync), or a new slot. A submitted run can be taken back until it starts. Thread-safe.
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
        """Buffer runs, and start as many as the concurrency allows."""
        with self._lock:
            self.buffered.extend(runs)
            free = min(self.concurrency - len(self.running), len(self.buffered))
            started = [self.buffered.popleft() for _ in range(free)]
            self.running.update(started)
            self._submitted.update(started)
        if started:
            self._submit(started)

    def mark_started(self, run: Run) -> bool:
        """Mark a submitted run as started. Return False if it was taken back meanwhile."""
        with self._lock:
            if run not in self._submitted:
                return False
            self._submitted.remove(run)
            return True

    def next_after(self, run: Run) -> Run | None:
        """Record that a run has ended, and return the next run for the same slot, if there is one."""
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
        """Return whether a buffered job was claimed before `since`."""
        with self._lock:
            return bool(self.buffered) and self.buffered[0].claimed_at < since

    def find_by_lease(self, lease: Lease) -> Run | None:
        """Return the running run with this lease, if there is one."""
        with self._lock:
            return next((run for run in self.running if run.lease is lease), None)

    def take_back_buffered(self) -> list[Run]:
        """Remove and return all buffered runs."""
        with self._lock:
            runs = list(self.buffered)
            self.buffered.clear()
            return runs

    def take_back_submitted(self) -> list[Run]:
        """Remove and return the runs that were submitted and have not started."""
        with self._lock:
            runs = list(self._submitted)
            self._submitted.clear()
            self.running.difference_update(runs)
            return runs

    def started_runs(self) -> list[Run]:
        """Return the runs whose handlers have started."""
        with self._lock:
            return list(self.running - self._submitted)

    def abandon_run(self, run: Run) -> None:
        """Stop counting a run that does not end, and free its slot."""
        with self._lock:
            self.running.discard(run)
        self.add([])

    def abandon_all(self) -> list[Run]:
        """Remove and return all running runs, the submitted ones included."""
        with self._lock:
            runs = list(self.running)
            self.running.clear()
            self._submitted.clear()
            return runs
