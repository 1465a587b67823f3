"""The measurements: jobs per second within a given time."""

import gc
from collections.abc import Callable
from dataclasses import dataclass
from time import perf_counter

from benchmarks.contestants.contract import BATCHES, Contestant, Queue

BACKLOG = 5_000
"""Queued jobs at the start of claiming. When all are done, the clock stops until as many are queued again."""

BULK = 1_000


@dataclass(frozen=True, slots=True, kw_only=True)
class Measure:
    """A column of the report."""

    name: str
    applies_to: Callable[[Contestant], bool]
    rate: Callable[[Queue, float], float]
    """Jobs per second, measured for the given number of seconds."""


def claiming(batch: int) -> Measure:
    return Measure(
        name=f"claim {batch}",
        applies_to=lambda contestant: batch in contestant.batches,
        rate=lambda queue, seconds: claim_rate(queue, batch, seconds),
    )


def claim_rate(queue: Queue, batch: int, seconds: float) -> float:
    done, spent = 0, 0.0
    while spent < seconds:
        for _ in range(BACKLOG // BULK):
            queue.enqueue_many(BULK)
        gc.collect()
        started = perf_counter()
        while spent + perf_counter() - started < seconds and (number := queue.claim_and_complete(batch)):
            done += number
        spent += perf_counter() - started
    return done / spent


def repeated_rate(action: Callable[[], None], jobs: int, seconds: float) -> float:
    gc.collect()
    done, started = 0, perf_counter()
    while (spent := perf_counter() - started) < seconds:
        action()
        done += jobs
    return done / spent


MEASURES = (
    *(claiming(batch) for batch in BATCHES),
    Measure(
        name="enqueue 1",
        applies_to=lambda _: True,
        rate=lambda queue, seconds: repeated_rate(queue.enqueue, 1, seconds),
    ),
    Measure(
        name=f"enqueue {BULK:,}",
        applies_to=lambda contestant: contestant.has_bulk,
        rate=lambda queue, seconds: repeated_rate(lambda: queue.enqueue_many(BULK), BULK, seconds),
    ),
)
