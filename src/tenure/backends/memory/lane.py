"""The queued jobs of one queue and type."""

from datetime import datetime

from tenure.backends.memory.priority_queue import HeapEntry, PriorityQueue
from tenure.backends.memory.record import StoredJob


class Lane:
    """The due jobs in the order in which they are claimed, and the scheduled ones by their time.

    Scheduled jobs stand apart, so that a claim never walks over them, however high their priority.
    """

    __slots__ = ("_due_by_age", "due", "scheduled")

    def __init__(self) -> None:
        self.due = PriorityQueue()
        self.scheduled = PriorityQueue()
        self._due_by_age = PriorityQueue()

    def __len__(self) -> int:
        return len(self.due) + len(self.scheduled)

    @property
    def oldest_due_at(self) -> datetime | None:
        first = self._due_by_age.first()
        return None if first is None else first[0]

    def put(self, job: StoredJob, now: datetime) -> None:
        if job.run_at <= now:
            self.promote(job)
        else:
            self.scheduled.put(job.time_order)

    def promote(self, job: StoredJob) -> None:
        """Put a job among the due."""
        self.scheduled.discard(job.entry.id)
        self.due.put(job.claim_order)
        self._due_by_age.put(job.time_order)

    def discard(self, id: str) -> None:
        self.due.discard(id)
        self._due_by_age.discard(id)
        self.scheduled.discard(id)

    def first(self) -> HeapEntry | None:
        """Return the place of the first due job."""
        return self.due.first()

    def pop(self) -> str:
        """Take the id of the first due job; `first` must have returned one."""
        id = self.due.pop()
        self._due_by_age.discard(id)
        return id
