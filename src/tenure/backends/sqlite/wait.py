"""Waiting for something to claim: looking at the number that every commit changes."""

import random
import sqlite3
import threading
import time
from collections.abc import Callable

from tenure.backends.sqlite.database import Database

SHORTEST_POLL, LONGEST_POLL = 0.001, 0.025

ClaimableIn = Callable[[sqlite3.Connection, int], float | None]
"""Returns in how many seconds a claim may find something; None is not as things are."""


def wait(database: Database, claimable_in: ClaimableIn, timeout: float, closing: threading.Event) -> None:
    """Look at the number that every commit changes, and only if it did, whether something is due."""
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
        # Unevenly, so that of many who wait the first has taken the job before the others look.
        if left <= 0 or closing.wait(min(left, pause * random.uniform(0.5, 1.0))):
            return
        pause = min(pause * 1.2, LONGEST_POLL)
