"""The settlements of a source that are sent again: the job is locked, or the table rejects the outcome for now.

A table rejects an outcome for now if a statement is invalid or a right is missing: the table may be fixed. Each of
these settlements may cost transactions of its own, so few are sent at once, and the delay of each doubles.
"""

import math
from bisect import bisect_right, insort
from operator import itemgetter

from tenure.client.run import Run
from tenure.core.operations import Settlement

BUSY_DELAY, MAX_BUSY_DELAY = 0.002, 0.5
"""Seconds after which the settlement of a locked job is sent again; doubled each time that the job is still locked."""

REJECTED_DELAY, MAX_REJECTED_DELAY = 2.0, 60.0
"""Seconds after which a rejected settlement is sent again; doubled with each rejection."""

DELAY_PER_ELAPSED = 5.0
"""Least delay, in multiples of the time that the last request took: slow retries cost at most a sixth of the time."""

RESEND_BATCH_SIZE = 32
"""Number of settlements that are sent again at once."""

RESEND_PAUSE = 0.25
"""Seconds between two batches, if more settlements wait, and a settlement of the batch was not recorded."""


class DeferredSettlements:
    """Ended runs, by the time at which their settlement is due again."""

    def __init__(self) -> None:
        self.due_at = math.inf
        """When the next batch is due."""
        self._waiting: list[tuple[float, tuple[Run, Settlement]]] = []
        self._paused_until = -math.inf

    def __len__(self) -> int:
        return len(self._waiting)

    @property
    def runs(self) -> list[Run]:
        return [run for _, (run, _) in self._waiting]

    def add(self, ended: tuple[Run, Settlement], now: float, elapsed: float = 0.0, *, is_busy: bool) -> None:
        """Keep a settlement that was not recorded now: the job is locked (`is_busy`), or the outcome was rejected.

        `elapsed` is the time that its request took.
        """
        run, _ = ended
        if run.resend_delay and len(self._waiting) >= RESEND_BATCH_SIZE:
            self._paused_until = now + RESEND_PAUSE
        shortest, longest = (BUSY_DELAY, MAX_BUSY_DELAY) if is_busy else (REJECTED_DELAY, MAX_REJECTED_DELAY)
        run.resend_delay = min(max(2 * run.resend_delay, shortest), longest)
        due_at = now + max(run.resend_delay, DELAY_PER_ELAPSED * elapsed)
        insort(self._waiting, (due_at, ended), key=itemgetter(0))
        self._update_due_at()

    def take_due(self, now: float) -> list[tuple[Run, Settlement]]:
        """Remove and return the next batch, if one is due."""
        if now < self._paused_until:
            return []
        count = min(bisect_right(self._waiting, now, key=itemgetter(0)), RESEND_BATCH_SIZE)
        taken, self._waiting = self._waiting[:count], self._waiting[count:]
        self._update_due_at()
        return [ended for _, ended in taken]

    def take_all(self) -> list[tuple[Run, Settlement]]:
        """Remove and return all settlements."""
        taken, self._waiting = self._waiting, []
        self._update_due_at()
        return [ended for _, ended in taken]

    def _update_due_at(self) -> None:
        self.due_at = max(self._waiting[0][0], self._paused_until) if self._waiting else math.inf
