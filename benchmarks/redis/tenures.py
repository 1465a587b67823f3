"""tenure with default settings: its client, and `tenure work`."""

from benchmarks.redis.apps.tenures import jobs
from benchmarks.redis.contract import payload
from tenure import NewJob
from tenure.core.operations import StatsColumn

UNDONE: tuple[StatsColumn, ...] = ("due", "scheduled", "running", "failed")


class TenureQueue:
    def __init__(self, type: str) -> None:
        self._type = type

    def enqueue(self, numbers: range, at_once: int) -> None:
        if at_once == 1:
            for n in numbers:
                jobs.enqueue(self._type, payload(n))
        else:
            for start in range(0, len(numbers), at_once):
                jobs.enqueue_many(NewJob(self._type, payload(n)) for n in numbers[start : start + at_once])

    def left(self) -> int:
        stats = jobs.stats()
        return sum(stats.total(each) for each in UNDONE)

    def close(self) -> None:
        jobs.close()
