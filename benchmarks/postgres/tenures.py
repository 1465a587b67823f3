"""tenure's worker with default settings."""

from time import perf_counter

from benchmarks.contestants.contract import PAYLOAD
from tenure import Jobs, NewJob
from tenure.core.operations import StatsColumn

TYPE = "work"
UNDONE: tuple[StatsColumn, ...] = ("due", "scheduled", "running", "failed")


class TenureQueue:
    def __init__(self, url: str) -> None:
        self._jobs = Jobs(url)
        self._jobs.migrate()
        self._jobs.task(TYPE)(self._work)
        self._first_at = 0.0

    def enqueue(self, number: int, at_once: int) -> float:
        started = perf_counter()
        if at_once == 1:
            for _ in range(number):
                self._jobs.enqueue(TYPE, PAYLOAD)
        else:
            for start in range(0, number, at_once):
                self._jobs.enqueue_many(NewJob(TYPE, PAYLOAD) for _ in range(min(at_once, number - start)))
        return perf_counter() - started

    def drain(self) -> float:
        """Run all jobs. The time runs from the first job to the end of the worker."""
        self._jobs.work(drain=True)
        return perf_counter() - self._first_at

    async def _work(self, n: int) -> None:  # noqa: ARG002 - the payload has it
        self._first_at = self._first_at or perf_counter()

    def left(self) -> int:
        stats = self._jobs.stats()
        return sum(stats.total(each) for each in UNDONE)

    def close(self) -> None:
        self._jobs.close()
