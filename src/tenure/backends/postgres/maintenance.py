"""What a store needs now and then: counts added up, and empty lanes swept.

Whoever beats or purges does it along the way, in transactions of its own. It waits for nobody, and what it leaves
undone only takes room: it is done another time.
"""

import time
from contextlib import suppress

from tenure.backends.postgres.database import Database
from tenure.backends.postgres.encoding import duration
from tenure.backends.postgres.pipeline import Step
from tenure.core.operations import COUNTS_KEPT
from tenure.errors import StoreUnavailable

ADDED_UP_EVERY = 60.0
SWEPT_EVERY = 600.0
MOST_LINES = 50_000
"""How many lines of counts are added up, or dropped, at once."""


class NowAndThen:
    """Tells whether it is time again. If two ask at the same instant, both may be told so."""

    def __init__(self, every: float) -> None:
        self._every = every
        self._next_at = time.monotonic()

    def is_time(self) -> bool:
        now = time.monotonic()
        if now < self._next_at:
            return False
        self._next_at = now + self._every
        return True


class Tidying:
    def __init__(self, database: Database) -> None:
        self._database = database
        self._adding_up = NowAndThen(ADDED_UP_EVERY)
        self._sweeping = NowAndThen(SWEPT_EVERY)
        self._since: str | None = None

    def add_up_counts(self) -> None:
        if self._adding_up.is_time():
            with suppress(StoreUnavailable):
                self._since = add_up_counts(self._database, self._since)

    def sweep_lanes(self) -> None:
        if self._sweeping.is_time():
            with suppress(StoreUnavailable):
                sweep_lanes(self._database)


def add_up_counts(database: Database, since: str | None) -> str:
    """Make one line of several, and drop what is older than a day; return since when to go on the next time."""
    statements, now = database.statements["counts"], database.now()
    steps = [
        Step(statements["drop old"], {"kept": duration(COUNTS_KEPT), "most": MOST_LINES, "now": now}),
        Step(statements["add up"], {"since": since, "most": MOST_LINES, "now": now}),
    ]
    _, since = database.ask(steps, may_repeat=False)
    return str(since)


def sweep_lanes(database: Database) -> None:
    """Forget the queues and types that have no job any more; raise if somebody is enqueueing at this instant."""
    statements = database.statements["forget"]
    (has_empty_lanes,) = database.ask([Step(statements["has empty lanes"])], may_repeat=False)
    if has_empty_lanes:
        # Until this is committed, whoever enqueues waits.
        database.ask([Step(statements["hold lanes"]), Step(statements["sweep lanes"])], may_repeat=False)
