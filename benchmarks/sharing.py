"""Several processes on one file: what they reach together, and how evenly they get their turn."""

import multiprocessing
from contextlib import closing
from dataclasses import dataclass
from multiprocessing.queues import Queue as Answers
from multiprocessing.synchronize import Barrier
from pathlib import Path
from time import perf_counter

from benchmarks.choosing import chosen
from benchmarks.contestants.contract import Contestant
from benchmarks.contestants.field import FIELD
from benchmarks.measures import BULK

PROCESSES = 4
ENOUGH = {1: 8_000, 10: 40_000}
"""By batch, more jobs than are done in a second."""

PATIENCE = 60.0
"""Seconds that the processes have to be ready, and then to end after their time."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Shared:
    """What the processes did together, and the share of each, smallest first."""

    per_second: float
    shares: list[float]


def share_file(contestant: Contestant, batch: int, seconds: float, folder: Path) -> Shared:
    """Let the processes claim and complete from one file until the time is over or nothing is left."""
    with closing(contestant.open(folder)) as queue:
        for _ in range(0, int(ENOUGH[batch] * seconds) + BULK, BULK):
            queue.enqueue_many(BULK)
    context = multiprocessing.get_context("spawn")
    ready, answers = context.Barrier(PROCESSES), context.Queue()
    work = (contestant.name, batch, seconds, folder, ready, answers)
    processes = [context.Process(target=_work, args=work, daemon=True) for _ in range(PROCESSES)]
    for process in processes:
        process.start()
    done = [answers.get(timeout=2 * PATIENCE + seconds) for _ in processes]
    for process in processes:
        process.join()
    total = sum(number for number, _ in done)
    return Shared(
        per_second=total / max(spent for _, spent in done), shares=sorted(number / total for number, _ in done)
    )


def _work(
    name: str, batch: int, seconds: float, folder: Path, ready: Barrier, answers: "Answers[tuple[int, float]]"
) -> None:
    """Answer how many jobs this process did, and in which time."""
    (contestant,) = chosen([name], FIELD)
    with closing(contestant.open(folder)) as queue:
        ready.wait(PATIENCE)
        done, started = 0, perf_counter()
        while perf_counter() - started < seconds and (number := queue.claim_and_complete(batch)):
            done += number
        answers.put((done, perf_counter() - started))
