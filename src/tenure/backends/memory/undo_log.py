"""The changes of the current operation, so that the next operation can undo them after an interrupt.

An exception can occur between any two steps of the main thread: Ctrl-C, an alarm, a test timeout. The next operation
then finds the undo log open, and restores the state before the interrupted operation.
"""

from datetime import datetime

from tenure.backends.memory.record import StoredJob


class UndoLog:
    def __init__(self) -> None:
        self.is_open = False
        self.schedules: dict[str, datetime | None] = {}
        """The last slot of each changed schedule before the operation."""
        self._before: dict[str, tuple[StoredJob, tuple[object, ...] | None]] = {}

    def record(self, job: StoredJob) -> None:
        """Save the state of a job, unless this operation has already saved it."""
        if job.record.id not in self._before:
            self._before[job.record.id] = job, job.snapshot()

    def record_new(self, job: StoredJob) -> None:
        """Record that the job did not exist before the operation."""
        self._before.setdefault(job.record.id, (job, None))

    def record_schedule(self, name: str, last_at: datetime | None) -> None:
        """Save the last slot of a schedule; None for a new schedule."""
        self.schedules.setdefault(name, last_at)

    def roll_back(self, jobs: dict[str, StoredJob]) -> dict[str, StoredJob]:
        """Return the jobs as they were before the operation."""
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
