"""tenure's worker on a store of tenure."""

from collections.abc import Callable
from contextlib import AbstractContextManager
from time import perf_counter
from typing import Any

from benchmarks.contestants.contract import PAYLOAD
from benchmarks.worker.contract import CONCURRENCY, Started
from tenure import Jobs, NewJob
from tenure.backends.urls import open_backend

PART = 1_000


def work(n: int) -> None:
    """Do nothing."""


async def work_async(n: int) -> None:
    """Do nothing."""


class TenureBacklog:
    def __init__(self, url: str, function: Callable[..., Any]) -> None:
        self.store = open_backend(url)
        self._jobs = Jobs(self.store)
        self._jobs.task("work")(function)

    def fill(self, number: int) -> None:
        enqueue_in_parts(self._jobs, number)

    def drain(self) -> float:
        """Run all jobs. The time includes start and stop of the worker."""
        started = perf_counter()
        self._jobs.work(drain=True, concurrency=CONCURRENCY)
        return perf_counter() - started

    def close(self) -> None:
        self._jobs.close()


class TenureService:
    def __init__(self, url: str, started: Started, *, is_async: bool) -> None:
        self._jobs = Jobs(url)
        self._jobs.task("work")(_noting_async(started) if is_async else _noting(started))

    def enqueue(self) -> None:
        self._jobs.enqueue("work", PAYLOAD)

    def running(self) -> AbstractContextManager[object]:
        return self._jobs.worker(concurrency=CONCURRENCY)

    def close(self) -> None:
        self._jobs.close()


def enqueue_in_parts(jobs: Jobs, number: int) -> None:
    for start in range(0, number, PART):
        jobs.enqueue_many(NewJob("work", PAYLOAD) for _ in range(min(PART, number - start)))


def _noting(started: Started) -> Callable[..., Any]:
    def work(n: int) -> None:  # noqa: ARG001 - every job has one
        started()

    return work


def _noting_async(started: Started) -> Callable[..., Any]:
    async def work(n: int) -> None:  # noqa: ARG001 - every job has one
        started()

    return work
