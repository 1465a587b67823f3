"""What an operation has changed so far, so that one that is broken off can be undone.

An exception can come between any two steps of the main thread: Ctrl-C, an alarm, a test that runs too long. The next
operation then finds the journal open, and puts everything back as it was before.
"""

from datetime import datetime

from tenure.backends.memory.record import StoredJob


class UndoLog:
    def __init__(self) -> None:
        self.is_open = False
        self.schedules: dict[str, datetime | None] = {}
        """The last slots as they were before."""
        self._before: dict[str, tuple[StoredJob, tuple[object, ...] | None]] = {}

    def record(self, job: StoredJob) -> None:
        """Remember a record as it is, unless this operation has changed it already."""
        if job.entry.id not in self._before:
            self._before[job.entry.id] = job, job.snapshot()

    def record_new(self, job: StoredJob) -> None:
        """Remember that this job was not there."""
        self._before.setdefault(job.entry.id, (job, None))

    def record_schedule(self, name: str, last_at: datetime | None) -> None:
        """Remember the last slot of a schedule, or that it had not begun."""
        self.schedules.setdefault(name, last_at)

    def roll_back(self, jobs: dict[str, StoredJob]) -> dict[str, StoredJob]:
        """Return the records as they were before the operation."""
        before = dict(jobs)
        for id, (job, saved) in self._before.items():
            if saved is None:
                before.pop(id, None)
            else:
                job.restore(saved)
                before[id] = job
        return before

    def close(self) -> None:
        self._before = {}
        self.schedules = {}
        self.is_open = False
