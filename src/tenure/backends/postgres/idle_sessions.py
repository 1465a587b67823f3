"""Keep idle sessions of `claim.transaction()` for reuse.

Opening a session takes a few milliseconds, and the server needs as long again to load our functions for the first time.
"""

import threading
import time
from collections import deque
from dataclasses import dataclass

from psycopg.pq import TransactionStatus
from psycopg.pq.abc import PGconn

from tenure.backends.shared import forking

IDLE_SESSION_TTL = 60.0
"""Seconds after which an unused session is closed, at the next take or return of a session."""


@dataclass(frozen=True, slots=True)
class IdleSession:
    session: PGconn
    idle_since: float


class IdleSessions:
    """The idle sessions of one process, for any thread or event loop."""

    def __init__(self, limit: int) -> None:
        self._limit = limit
        self._reset()
        forking.register(self)

    def _reset(self) -> None:
        self._lock = threading.Lock()
        self._idle: deque[IdleSession] = deque()
        self._is_closed = False

    def take(self) -> PGconn | None:
        """Return the most recently used session, or None."""
        with self._lock:
            self._close_expired()
            return self._idle.pop().session if self._idle else None

    def put(self, session: PGconn) -> None:
        """Keep a session for reuse, or close it if it is in a transaction or the limit is reached."""
        is_idle = session.transaction_status == TransactionStatus.IDLE
        with self._lock:
            self._close_expired()
            if is_idle and not self._is_closed and len(self._idle) < self._limit:
                self._idle.append(IdleSession(session, time.monotonic()))
                return
        session.finish()

    def close(self) -> None:
        with self._lock:
            self._is_closed = True
            while self._idle:
                self._idle.pop().session.finish()

    def after_fork_in_child(self) -> None:
        """Start empty: the sessions belong to the parent."""
        forking.abandon(self._idle)
        self._reset()

    def _close_expired(self) -> None:
        while self._idle and self._idle[0].idle_since < time.monotonic() - IDLE_SESSION_TTL:
            self._idle.popleft().session.finish()
