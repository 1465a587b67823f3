"""The queued jobs of one queue and type."""

from datetime import datetime

from tenure.backends.memory.priority_queue import Line, Place
from tenure.backends.memory.record import Record


class Lane:
    """The due jobs in the order in which they are claimed, and the scheduled ones by their time.

    Scheduled jobs stand apart, so that a claim never walks over them, however high their priority.
    """

    __slots__ = ("_due_by_age", "due", "scheduled")

    def __init__(self) -> None:
        self.due = Line()
        self.scheduled = Line()
        self._due_by_age = Line()

    def __len__(self) -> int:
        return len(self.due) + len(self.scheduled)

    @property
    def oldest_due_at(self) -> datetime | None:
        first = self._due_by_age.first()
        return None if first is None else first[0]

    def put(self, record: Record, now: datetime) -> None:
        if record.run_at <= now:
            self.promote(record)
        else:
            self.scheduled.put(record.age)

    def promote(self, record: Record) -> None:
        """Put a job among the due."""
        self.scheduled.discard(record.entry.id)
        self.due.put(record.order)
        self._due_by_age.put(record.age)

    def discard(self, id: str) -> None:
        self.due.discard(id)
        self._due_by_age.discard(id)
        self.scheduled.discard(id)

    def first(self) -> Place | None:
        """Return the place of the first due job."""
        return self.due.first()

    def pop(self) -> str:
        """Take the id of the first due job; `first` must have returned one."""
        id = self.due.pop()
        self._due_by_age.discard(id)
        return id
