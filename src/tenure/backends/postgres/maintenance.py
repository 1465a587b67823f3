"""What a store needs now and then: counts added up, and empty lanes swept.

Whoever beats or purges does it along the way, in transactions of its own. It waits for nobody, and what it leaves
undone only takes room: it is done another time.
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
"""How many lines of counts are added up, or dropped, at once."""


class Throttle:
    """Tells whether it is time again. If two ask at the same instant, both may be told so."""

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
    """Make one line of several, and drop what is older than a day; return since when to go on the next time."""
    statements, now = database.statements["counts"], database.now()
    steps = [
        BoundQuery(statements["drop old"], {"kept": microseconds(COUNTS_KEPT), "most": MERGE_BATCH, "now": now}),
        BoundQuery(statements["add up"], {"since": since, "most": MERGE_BATCH, "now": now}),
    ]
    _, since = database.execute(steps, may_repeat=False)
    return str(since)


def sweep_lanes(database: Database) -> None:
    """Forget the queues and types that have no job any more; raise if somebody is enqueueing at this instant."""
    statements = database.statements["purge"]
    (has_empty_lanes,) = database.execute([BoundQuery(statements["has empty lanes"])], may_repeat=False)
    if has_empty_lanes:
        # Until this is committed, whoever enqueues waits.
        database.execute(
            [BoundQuery(statements["hold lanes"]), BoundQuery(statements["sweep lanes"])], may_repeat=False
        )
