"""What an operation has changed so far, so that one that is broken off can be undone.

An exception can come between any two steps of the main thread: Ctrl-C, an alarm, a test that runs too long. The next
operation then finds the journal open, and puts everything back as it was before.
"""

from datetime import datetime

from tenure.backends.memory.record import Record


class Journal:
    def __init__(self) -> None:
        self.is_open = False
        self.schedules: dict[str, datetime | None] = {}
        """The last slots as they were before."""
        self._before: dict[str, tuple[Record, tuple[object, ...] | None]] = {}

    def note(self, record: Record) -> None:
        """Remember a record as it is, unless this operation has changed it already."""
        if record.entry.id not in self._before:
            self._before[record.entry.id] = record, record.saved()

    def note_new(self, record: Record) -> None:
        """Remember that this job was not there."""
        self._before.setdefault(record.entry.id, (record, None))

    def note_schedule(self, name: str, last_at: datetime | None) -> None:
        """Remember the last slot of a schedule, or that it had not begun."""
        self.schedules.setdefault(name, last_at)

    def undone(self, records: dict[str, Record]) -> dict[str, Record]:
        """Return the records as they were before the operation."""
        before = dict(records)
        for id, (record, saved) in self._before.items():
            if saved is None:
                before.pop(id, None)
            else:
                record.restore(saved)
                before[id] = record
        return before

    def close(self) -> None:
        self._before = {}
        self.schedules = {}
        self.is_open = False
