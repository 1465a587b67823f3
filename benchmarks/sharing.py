"""Several processes on one file: their total speed, and how evenly the work is shared."""

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
"""By batch size: more jobs than the processes complete in a second."""

PATIENCE = 60.0
"""Seconds for the processes to start, and to stop after the measurement."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Shared:
    """Jobs of all processes, and the share of each process, smallest first."""

    per_second: float
    shares: list[float]


def share_file(contestant: Contestant, batch: int, seconds: float, folder: Path) -> Shared:
    """Claim and complete in several processes until the time is over or no job is left."""
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
    """Send back the number of jobs of this process, and the time it took."""
    (contestant,) = chosen([name], FIELD)
    with closing(contestant.open(folder)) as queue:
        ready.wait(PATIENCE)
        done, started = 0, perf_counter()
        while perf_counter() - started < seconds and (number := queue.claim_and_complete(batch)):
            done += number
        answers.put((done, perf_counter() - started))
