"""The pulse of a worker: how it is, told again and again to whoever watches over its process.

In a thread of its own that asks nobody anything: what the worker does cannot hold it up.
"""

from collections.abc import Callable

from tenure.worker.started_jobs import Ledger
from tenure.worker.status import Vitals
from tenure.worker.wakeup import Bell

EVERY = 0.5


class Heart:
    def __init__(self, ledger: Ledger, vitals: Callable[[], Vitals]) -> None:
        self._ledger = ledger
        self._vitals = vitals
        self._bell = Bell()
        self._is_closing = False

    def run(self) -> None:
        """Beat until it is closed, and once more: the last pulse says what the worker did in all."""
        while True:
            is_last = self._is_closing
            self._ledger.beat(self._vitals())
            if is_last:
                return
            self._bell.wait(EVERY)

    def beat(self) -> None:
        """Beat now: something is worth telling."""
        self._bell.ring()

    def close(self) -> None:
        self._is_closing = True
        self._bell.ring()
