"""Sessions for transactions of the caller's that are open, and that nobody uses.

To open one takes a few milliseconds, and the server then takes as long again to read our functions for the first time.
"""

import threading
import time
from collections import deque
from dataclasses import dataclass

from psycopg.pq import TransactionStatus
from psycopg.pq.abc import PGconn

from tenure.backends.shared import forking as forks

LONGEST_IDLE = 60.0
"""Seconds after which one that nobody used is closed, when another is taken or given back."""


@dataclass(frozen=True, slots=True)
class Spare:
    session: PGconn
    since: float


class Spares:
    """Those of one process: for any thread, and for any event loop."""

    def __init__(self, most: int) -> None:
        self._most = most
        self._begin()
        forks.watch(self)

    def _begin(self) -> None:
        self._lock = threading.Lock()
        self._spares: deque[Spare] = deque()
        self._is_closed = False

    def take(self) -> PGconn | None:
        """Return the one that was used last, or None."""
        with self._lock:
            self._close_old()
            return self._spares.pop().session if self._spares else None

    def give_back(self, session: PGconn) -> None:
        """Keep one whose transaction has ended, or close it."""
        is_idle = session.transaction_status == TransactionStatus.IDLE
        with self._lock:
            self._close_old()
            if is_idle and not self._is_closed and len(self._spares) < self._most:
                self._spares.append(Spare(session, time.monotonic()))
                return
        session.finish()

    def close(self) -> None:
        with self._lock:
            self._is_closed = True
            while self._spares:
                self._spares.pop().session.finish()

    def after_fork_in_child(self) -> None:
        """Begin anew: the sessions are the parent's."""
        forks.abandon(self._spares)
        self._begin()

    def _close_old(self) -> None:
        while self._spares and self._spares[0].since < time.monotonic() - LONGEST_IDLE:
            self._spares.popleft().session.finish()
