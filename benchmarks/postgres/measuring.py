"""The PostgreSQL benchmark: all contestants run in each round."""

import gc
from collections.abc import Callable, Sequence
from contextlib import closing
from dataclasses import dataclass, field
from pathlib import Path
from time import process_time

from benchmarks.alone import alone
from benchmarks.choosing import chosen
from benchmarks.machine import Machine, StealMeter
from benchmarks.postgres.contract import Contestant
from benchmarks.postgres.field import FIELD
from benchmarks.postgres.server import Server, running, vacuum
from benchmarks.processor import seconds_of
from benchmarks.readings import Run

DRAIN = "drain"
BULK = 1_000
ENQUEUE = {1: "enqueue 1", BULK: f"enqueue {BULK:,}"}
"""By jobs per call."""
PACKAGES = ("tenure", "psycopg", "pgqueuer", "asyncpg", "uvloop")
MICROSECONDS = 1_000_000


@dataclass(frozen=True, slots=True, kw_only=True)
class Used:
    """CPU time of a drain, in microseconds per job."""

    client: float
    server: float | None
    """CPU time of all server processes, including background ones; None if the kernel does not report it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Turn:
    """The result of a contestant in a round."""

    per_second: dict[str, float]
    used: Used


@dataclass(slots=True, kw_only=True)
class PostgresRun(Run):
    jobs: int
    """Jobs per contestant and round."""
    singles: int
    """Jobs enqueued one by one."""
    server: dict[str, str]
    used: dict[str, list[Used]] = field(default_factory=dict)
    """By contestant, in round order."""


def measure(
    contestants: Sequence[Contestant], *, rounds: int, jobs: int, singles: int, folder: Path, say: Callable[[str], None]
) -> PostgresRun:
    """Measure all contestants in each round. Every run uses a new process and a new database on the same server."""
    with running(folder) as server:
        run = PostgresRun(
            benchmark="postgres",
            machine=Machine.here(folder, PACKAGES),
            jobs=jobs,
            singles=singles,
            server=server.settings,
        )
        meter = StealMeter()
        for number in range(rounds):
            say(f"round {number + 1} of {rounds}")
            turn = number % len(contestants)
            for contestant in [*contestants[turn:], *contestants[:turn]]:
                add(run, contestant, take_turn(contestant, run, server))
            run.steal.append(meter.share())
    return run


def take_turn(contestant: Contestant, run: PostgresRun, server: Server) -> Turn:
    with server.new_database() as url:
        return alone(_turn, contestant.name, url, server.pid, run.jobs, run.singles)


def add(run: PostgresRun, contestant: Contestant, turn: Turn) -> None:
    for measure, rate in turn.per_second.items():
        # The bare statements use tenure's enqueue, which is measured elsewhere.
        if measure == DRAIN or not contestant.is_raw:
            run.of(contestant.name, measure).per_second.append(rate)
    run.used.setdefault(contestant.name, []).append(turn.used)


def _turn(name: str, url: str, server: int, jobs: int, singles: int) -> Turn:
    (contestant,) = chosen([name], FIELD)
    with closing(contestant.open(url)) as queue:
        rates = {ENQUEUE[BULK]: jobs / queue.enqueue(jobs, BULK)}
        vacuum(url)
        gc.collect()
        client, served = process_time(), seconds_of(server)
        rates[DRAIN] = jobs / queue.drain()
        used = _used(jobs, process_time() - client, served, seconds_of(server))
        if left := queue.left():
            raise RuntimeError(f"{name} finished, but {left:,} of {jobs:,} jobs are not completed")
        rates[ENQUEUE[1]] = singles / queue.enqueue(singles, 1)
    return Turn(per_second=rates, used=used)


def _used(jobs: int, client: float, before: float | None, after: float | None) -> Used:
    server = None if before is None or after is None else (after - before) * MICROSECONDS / jobs
    return Used(client=client * MICROSECONDS / jobs, server=server)
