"""How long a job waits for a worker that has nothing to do: from the call of enqueue until its handler begins.

Jobs come one at a time, with a pause between them that is never the same, so that a worker which polls cannot fall into
step with them.
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
"""Seconds between two jobs, from and to: after that a worker idles."""
FIRST = 3
"""How many jobs come before those that count: the first ones open what is not open yet."""
PATIENCE = 60.0

Client = Callable[[], None]
NextStart = Callable[[], float]
"""Waits until the next job has begun, and returns when that was."""


def waits(name: str, number: int, folder: Path) -> list[float]:
    """Return the milliseconds that each of so many jobs waited."""
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
    """Run the worker. The clock is one for all processes of a machine."""
    be_quiet()
    (contestant,) = chosen([name], FIELD)
    assert contestant.service is not None  # noqa: S101 - only workers are measured
    with closing(contestant.service(folder, lambda: starts.put(perf_counter()))) as service, service.running():
        is_over.wait()


def _nobody() -> None:
    """Take the place of a handler where no worker runs."""
