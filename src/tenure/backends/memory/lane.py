"""The queued jobs of one queue and type."""

from datetime import datetime

from tenure.backends.memory.priority_queue import HeapEntry, PriorityQueue
from tenure.backends.memory.record import StoredJob


class Lane:
    """The due jobs in claim order, and the scheduled jobs by time.

    Scheduled jobs are kept apart, so that a claim never has to skip them, however high their priority.
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
        """Make a job due."""
        self.scheduled.discard(job.record.id)
        self.due.put(job.claim_order)
        self._due_by_age.put(job.time_order)

    def discard(self, id: str) -> None:
        self.due.discard(id)
        self._due_by_age.discard(id)
        self.scheduled.discard(id)

    def first(self) -> HeapEntry | None:
        """Return the entry of the first due job, or None."""
        return self.due.first()

    def pop(self) -> str:
        """Remove the first due job and return its id; `first` must have returned an entry."""
        id = self.due.pop()
        self._due_by_age.discard(id)
        return id
