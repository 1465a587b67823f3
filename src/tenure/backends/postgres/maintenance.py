"""Periodic maintenance: merge the event counts of past minutes, and delete empty lanes.

Heartbeats and purges trigger maintenance, which runs in separate transactions and waits for no lock. Skipped rows only
take space; a later run handles them.
"""

import time
from contextlib import suppress

from tenure.backends.postgres.database import Database
from tenure.backends.postgres.encoding import microseconds
from tenure.backends.postgres.pipeline import BoundQuery
from tenure.core.operations import COUNTS_KEPT
from tenure.errors import StoreUnavailable

COUNTS_MERGE_INTERVAL = 60.0
LANE_SWEEP_INTERVAL = 600.0
MERGE_BATCH = 50_000
"""How many rows of counts one run merges or deletes at most."""


class Throttle:
    """Limits how often an action runs. Two threads that check at the same instant may both run it."""

    def __init__(self, interval: float) -> None:
        self._interval = interval
        self._next_at = time.monotonic()

    def is_due(self) -> bool:
        now = time.monotonic()
        if now < self._next_at:
            return False
        self._next_at = now + self._interval
        return True


class Maintenance:
    def __init__(self, database: Database) -> None:
        self._database = database
        self._merge_throttle = Throttle(COUNTS_MERGE_INTERVAL)
        self._sweep_throttle = Throttle(LANE_SWEEP_INTERVAL)
        self._merge_since: str | None = None

    def merge_counts(self) -> None:
        if self._merge_throttle.is_due():
            with suppress(StoreUnavailable):
                self._merge_since = merge_counts(self._database, self._merge_since)

    def sweep_lanes(self) -> None:
        if self._sweep_throttle.is_due():
            with suppress(StoreUnavailable):
                sweep_lanes(self._database)


def merge_counts(database: Database, since: str | None) -> str:
    """Merge the counts of each minute and delete those older than a day; return where the next run starts."""
    statements, now = database.statements["counts"], database.now()
    steps = [
        BoundQuery(statements["drop old"], {"kept": microseconds(COUNTS_KEPT), "most": MERGE_BATCH, "now": now}),
        BoundQuery(statements["merge"], {"since": since, "most": MERGE_BATCH, "now": now}),
    ]
    _, since = database.execute(steps, may_repeat=False)
    return str(since)


def sweep_lanes(database: Database) -> None:
    """Delete lanes without jobs. Raise if a concurrent transaction is enqueueing."""
    statements = database.statements["purge"]
    (has_empty_lanes,) = database.execute([BoundQuery(statements["has empty lanes"])], may_repeat=False)
    if has_empty_lanes:
        # The table lock blocks enqueueing until this transaction commits.
        database.execute(
            [BoundQuery(statements["lock lanes"]), BoundQuery(statements["delete empty lanes"])], may_repeat=False
        )
