"""The settlements of a source that the table rejects for an invalid statement or a missing right.

They are sent again, since the table may be fixed. Each costs transactions of its own, so few are sent at once, and ever
less often.
"""

import math
from bisect import bisect_right, insort
from operator import itemgetter

from tenure.client.run import Run
from tenure.core.operations import Settlement

REJECTED_DELAY, MAX_REJECTED_DELAY = 2.0, 60.0
"""Seconds after which a rejected settlement is sent again; doubled with each rejection."""

RESEND_BATCH_SIZE = 32
"""Number of rejected settlements that are sent again at once."""

RESEND_PAUSE = 0.25
"""Seconds without such a batch after one in which a settlement was rejected again."""


class RejectedSettlements:
    """Ended runs, by the time at which their settlement is due again."""

    def __init__(self) -> None:
        self._waiting: list[tuple[float, tuple[Run, Settlement | None]]] = []
        self._paused_until = -math.inf

    def __len__(self) -> int:
        return len(self._waiting)

    @property
    def runs(self) -> list[Run]:
        return [run for _, (run, _) in self._waiting]

    @property
    def due_at(self) -> float:
        """When the next batch is due."""
        return max(self._waiting[0][0], self._paused_until) if self._waiting else math.inf

    def add(self, ended: tuple[Run, Settlement | None], now: float) -> None:
        """Keep a settlement that was rejected now."""
        run, _ = ended
        if run.rejected_delay:
            self._paused_until = now + RESEND_PAUSE
        run.rejected_delay = min(2 * run.rejected_delay or REJECTED_DELAY, MAX_REJECTED_DELAY)
        insort(self._waiting, (now + run.rejected_delay, ended), key=itemgetter(0))

    def take_due(self, now: float) -> list[tuple[Run, Settlement | None]]:
        """Remove and return the next batch, if one is due."""
        if now < self._paused_until:
            return []
        count = min(bisect_right(self._waiting, now, key=itemgetter(0)), RESEND_BATCH_SIZE)
        taken, self._waiting = self._waiting[:count], self._waiting[count:]
        return [ended for _, ended in taken]

    def make_due(self) -> None:
        """Make all settlements due."""
        self._waiting = [(-math.inf, ended) for _, ended in self._waiting]
