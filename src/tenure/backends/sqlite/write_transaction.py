"""A write transaction: the connection, the time, and the changed counters."""

import sqlite3
from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from tenure.backends.shared.sql_files import statements
from tenure.backends.sqlite.lanes import LANES
from tenure.backends.sqlite.timestamps import duration
from tenure.core.job import State
from tenure.core.operations import COUNTS_KEPT, Event

COUNTS = statements(__package__, "counts")

MINUTE = duration(60)
COUNTERS = ("due", "scheduled", "running", "completed", "failed", "cancelled")

SqlValues = Mapping[str, Any]


class WriteTransaction:
    """A write transaction. `now` was read while the write lock was held."""

    __slots__ = ("_event_counts", "_lane_changes", "db", "now")

    def __init__(self, db: sqlite3.Connection, now: int) -> None:
        self.now = now
        self.db = db
        self._lane_changes: defaultdict[tuple[str, str], Counter[str]] = defaultdict(Counter)
        self._event_counts: Counter[tuple[str, Event]] = Counter()

    @property
    def is_open(self) -> bool:
        """Whether the transaction is still open."""
        try:
            return self.db.in_transaction
        except sqlite3.ProgrammingError:  # the connection is closed
            return False

    def belongs_to(self, connection: object) -> bool:
        return connection is self.db

    def execute(self, statement: str, values: SqlValues) -> sqlite3.Cursor:
        return self.db.execute(statement, values)

    def execute_many(self, statement: str, values: Iterable[SqlValues | Sequence[Any]]) -> None:
        """Execute the statement for each set of values."""
        self.db.executemany(statement, values)

    def fetch_all(self, statement: str, values: SqlValues) -> list[Any]:
        return self.db.execute(statement, values).fetchall()

    def fetch_one(self, statement: str, values: SqlValues) -> Any:
        """Return the first row, or None."""
        cursor = self.db.execute(statement, values)
        try:
            return cursor.fetchone()
        finally:
            cursor.close()

    def counter_name(self, state: str, run_at: int) -> str:
        """Return the counter for a job in this state."""
        return state if state != State.QUEUED else "due" if run_at <= self.now else "scheduled"

    def move_count(self, lane: tuple[str, str], before: str | None, after: str | None, number: int = 1) -> None:
        """Move jobs of a lane from one counter to another; None means not stored."""
        if before is not None:
            self._lane_changes[lane][before] -= number
        if after is not None:
            self._lane_changes[lane][after] += number

    def count_event(self, queue: str, event: Event, number: int = 1) -> None:
        self._event_counts[queue, event] += number

    def flush(self) -> None:
        """Write the counters before the transaction ends."""
        for (queue, type), numbers in self._lane_changes.items():
            self._change_lane({"queue": queue, "type": type, **{name: numbers[name] for name in COUNTERS}})
        self._lane_changes.clear()
        if self._event_counts:
            minute_at = self.now - self.now % MINUTE
            for (queue, event), number in self._event_counts.items():
                values = {"minute_at": minute_at, "queue": queue, "event": event.value, "number": number}
                self.db.execute(COUNTS["add"], values)
            self.db.execute(COUNTS["drop old"], {"before": minute_at - duration(COUNTS_KEPT)})
            self._event_counts.clear()

    def _change_lane(self, values: SqlValues) -> None:
        changes = ", ".join(f"{name} = {name} + :{name}" for name in COUNTERS if values[name])
        if not changes:
            return
        if self.db.execute(LANES["change"].format(changes=changes), values).rowcount == 0:
            self.db.execute(LANES["begin"], values)
        elif sum(values[name] for name in COUNTERS) < 0:
            self.db.execute(LANES["drop if empty"], values)
