"""Wait for jobs: poll the number that changes with every commit."""

import random
import sqlite3
import threading
import time
from collections.abc import Callable

from tenure.backends.sqlite.database import Database

SHORTEST_POLL, LONGEST_POLL = 0.001, 0.025

ClaimableIn = Callable[[sqlite3.Connection, int], float | None]
"""Returns the seconds until a claim may find a job; None means no job is expected."""


def wait(database: Database, claimable_in: ClaimableIn, timeout: float, closing: threading.Event) -> None:
    """Poll the number that changes with every commit; query for due jobs only after a change."""
    ends_at = time.monotonic() + timeout
    wakes_at = ends_at
    pause, seen = SHORTEST_POLL, None
    while True:
        if (version := database.data_version(pause / 2)) != seen:
            seen = version
            with database.read_transaction() as (db, now):
                due_in = claimable_in(db, now)
            wakes_at = ends_at if due_in is None else min(ends_at, time.monotonic() + due_in)
        left = wakes_at - time.monotonic()
        # With jitter, so that the first of many waiters can take the job before the others poll.
        if left <= 0 or closing.wait(min(left, pause * random.uniform(0.5, 1.0))):
            return
        pause = min(pause * 1.2, LONGEST_POLL)
