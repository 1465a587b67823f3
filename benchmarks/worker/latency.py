"""Latency with an idle worker: from the call of enqueue to the start of the handler.

Jobs come one at a time, with random pauses in between, so that a polling worker cannot synchronise with the jobs.
"""

import multiprocessing
import random
import time
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager
from multiprocessing.queues import Queue as Answers
from multiprocessing.synchronize import Event
from pathlib import Path
from queue import SimpleQueue
from time import perf_counter

from benchmarks.alone import alone, be_quiet
from benchmarks.choosing import chosen
from benchmarks.machine import new_folder
from benchmarks.worker.contract import Contestant
from benchmarks.worker.field import FIELD

PAUSE = (0.1, 0.2)
"""Minimum and maximum seconds between two jobs: enough for a worker to become idle."""
FIRST = 3
"""Warm-up jobs before the measurement: the first jobs open connections and files."""
PATIENCE = 60.0

Client = Callable[[], None]
NextStart = Callable[[], float]
"""Waits for the start of the next job, and returns its time."""


def waits(name: str, number: int, folder: Path) -> list[float]:
    """Return the waiting time of every job in milliseconds."""
    with new_folder(folder) as place:
        return alone(_waits, name, number, place)


def _waits(name: str, number: int, folder: Path) -> list[float]:
    (contestant,) = chosen([name], FIELD)
    between = _two_processes if contestant.is_shared else _one_process
    with between(contestant, folder) as (enqueue, next_start):
        for _ in range(FIRST):
            _wait(enqueue, next_start)
        return [_wait(enqueue, next_start) for _ in range(number)]


def _wait(enqueue: Client, next_start: NextStart) -> float:
    time.sleep(random.uniform(*PAUSE))
    sent_at = perf_counter()
    enqueue()
    return (next_start() - sent_at) * 1_000


@contextmanager
def _one_process(contestant: Contestant, folder: Path) -> Iterator[tuple[Client, NextStart]]:
    assert contestant.service is not None  # noqa: S101 - only workers are measured
    starts: SimpleQueue[float] = SimpleQueue()
    with closing(contestant.service(folder, lambda: starts.put(perf_counter()))) as service, service.running():
        yield service.enqueue, lambda: starts.get(timeout=PATIENCE)


@contextmanager
def _two_processes(contestant: Contestant, folder: Path) -> Iterator[tuple[Client, NextStart]]:
    assert contestant.service is not None  # noqa: S101 - only workers are measured
    context = multiprocessing.get_context("spawn")
    starts, is_over = context.Queue(), context.Event()
    worker = context.Process(target=_serve, args=(contestant.name, folder, starts, is_over), daemon=True)
    with closing(contestant.service(folder, _nobody)) as service:
        worker.start()
        try:
            yield service.enqueue, lambda: starts.get(timeout=PATIENCE)
        finally:
            is_over.set()
            worker.join()


def _serve(name: str, folder: Path, starts: "Answers[float]", is_over: Event) -> None:
    """Run the worker. All processes of a machine share one clock."""
    be_quiet()
    (contestant,) = chosen([name], FIELD)
    assert contestant.service is not None  # noqa: S101 - only workers are measured
    with closing(contestant.service(folder, lambda: starts.put(perf_counter()))) as service, service.running():
        is_over.wait()


def _nobody() -> None:
    """Stand in for a handler in a process without a worker."""
