"""One run of a contestant: the client stores jobs, then the worker runs them in a separate process.

A drain lasts from the start of the first job until the server has only completed jobs. Then the worker idles, and jobs
come one at a time, with random pauses in between.
"""

import gc
import os
import random
import signal
import sys
import time
from collections.abc import Iterator
from contextlib import closing, contextmanager
from dataclasses import dataclass
from pathlib import Path
from time import perf_counter

from benchmarks.alone import alone
from benchmarks.choosing import chosen
from benchmarks.machine import new_folder
from benchmarks.processor import seconds_of
from benchmarks.redis.apps.environment import NOTES, URL
from benchmarks.redis.contract import Contestant, Queue
from benchmarks.redis.field import FIELD
from benchmarks.redis.notes import Notes
from benchmarks.redis.server import Server

DRAIN = "drain"
BULK = 1_000
ENQUEUE = {1: "enqueue 1", BULK: f"enqueue {BULK:,}"}
"""By jobs per call."""
FIRST = 3
"""Warm-up jobs of an idle worker before the measurement."""
IDLE = (0.1, 0.2)
"""Minimum and maximum seconds between two jobs."""
PAUSE = 0.001
"""Seconds between two checks whether the last completions are stored."""
PATIENCE = 30.0
MICROSECONDS = 1_000_000
ROOT = Path(__file__).parents[2]


@dataclass(frozen=True, slots=True, kw_only=True)
class Amounts:
    """Number of jobs in a run."""

    jobs: int
    singles: int
    """Jobs enqueued one by one, if the others are enqueued in bulk."""
    waited: int
    """Jobs for the latency measurement."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Used:
    """CPU time of a drain, in microseconds per job; None if the kernel does not report it."""

    worker: float | None
    server: float | None


@dataclass(frozen=True, slots=True, kw_only=True)
class Memory:
    """Memory of the server, in bytes per job."""

    queued: float
    finished: float


@dataclass(frozen=True, slots=True, kw_only=True)
class Turn:
    per_second: dict[str, float]
    used: Used
    memory: Memory
    waits: list[float]
    """Milliseconds from the call of enqueue to the start of the handler."""


def take_turn(contestant: Contestant, amounts: Amounts, server: Server, folder: Path) -> Turn:
    """Measure a contestant in a new process on an empty server."""
    server.empty()
    with new_folder(folder) as place:
        return alone(_turn, contestant.name, amounts, server, place)


def _turn(name: str, amounts: Amounts, server: Server, place: Path) -> Turn:
    (contestant,) = chosen([name], FIELD)
    os.environ.update({URL: server.url, NOTES: str(place / "notes"), "PYTHONPATH": str(ROOT), **contestant.environment})
    notes = Notes.made(place / "notes", amounts.jobs + FIRST + amounts.waited)
    before = server.memory()
    with closing(contestant.open()) as queue:
        rates = _enqueue(contestant, queue, amounts)
        queued = server.memory()
        gc.collect()
        with _working(contestant, place) as worker:
            rates[DRAIN], used = _drain(queue, notes, amounts.jobs, worker, server)
            waits = _waits(queue, notes, amounts) if contestant.is_waited_for else []
        # After the worker's connections are closed: the server reports client buffers with a delay.
        finished = server.memory()
    memory = Memory(queued=(queued - before) / amounts.jobs, finished=(finished - before) / amounts.jobs)
    return Turn(per_second=rates, used=used, memory=memory, waits=waits)


def _enqueue(contestant: Contestant, queue: Queue, amounts: Amounts) -> dict[str, float]:
    if not contestant.has_bulk:
        return {ENQUEUE[1]: _enqueue_rate(queue, range(amounts.jobs), 1)}
    return {
        ENQUEUE[1]: _enqueue_rate(queue, range(amounts.singles), 1),
        ENQUEUE[BULK]: _enqueue_rate(queue, range(amounts.singles, amounts.jobs), BULK),
    }


def _enqueue_rate(queue: Queue, jobs: range, at_once: int) -> float:
    started = perf_counter()
    queue.enqueue(jobs, at_once)
    return len(jobs) / (perf_counter() - started)


def _drain(queue: Queue, notes: Notes, jobs: int, worker: int, server: Server) -> tuple[float, Used]:
    notes.await_one(0, PATIENCE)
    before = seconds_of(worker), seconds_of(server.pid)
    notes.await_all(jobs, PATIENCE)
    ends_at = perf_counter() + PATIENCE
    while left := queue.left():
        if perf_counter() > ends_at:
            raise TimeoutError(f"all {jobs:,} jobs have run, but {left:,} are not completed after {PATIENCE:g} s")
        time.sleep(PAUSE)
    took = perf_counter() - notes.first_at(jobs)
    by_worker, by_server = (
        None if earlier is None or later is None else (later - earlier) * MICROSECONDS / jobs
        for earlier, later in zip(before, (seconds_of(worker), seconds_of(server.pid)), strict=True)
    )
    return jobs / took, Used(worker=by_worker, server=by_server)


def _waits(queue: Queue, notes: Notes, amounts: Amounts) -> list[float]:
    waits = []
    for n in range(amounts.jobs, amounts.jobs + FIRST + amounts.waited):
        time.sleep(random.uniform(*IDLE))
        sent_at = perf_counter()
        queue.enqueue(range(n, n + 1), 1)
        waits.append((notes.await_one(n, PATIENCE) - sent_at) * 1_000)
    return waits[FIRST:]


@contextmanager
def _working(contestant: Contestant, place: Path) -> Iterator[int]:
    """Run the worker during the block; yield its process."""
    from tests.servers.process import Account, Process

    log = place / "log"
    process = Process([sys.executable, "-m", *contestant.command], Account(), log, signal.SIGTERM)
    try:
        yield process.pid
    except TimeoutError as exc:
        raise RuntimeError(f"{contestant.name}: {exc}; output of its worker:\n{log.read_text()[-2_000:]}") from exc
    finally:
        process.end(signal.SIGTERM)
