"""Queues in the process or in a file: claim, complete and enqueue, with one and with four processes."""

from collections.abc import Callable, Sequence
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path

from benchmarks.contestants.contract import Contestant
from benchmarks.machine import Machine, StealMeter, new_folder
from benchmarks.measures import MEASURES
from benchmarks.readings import Run
from benchmarks.sharing import ENOUGH, PROCESSES, share_file

SHARED = {batch: f"{PROCESSES} processes, claim {batch}" for batch in ENOUGH}


@dataclass(slots=True, kw_only=True)
class EmbeddedRun(Run):
    seconds: float
    """Seconds of each measurement."""


def measure(
    contestants: Sequence[Contestant], *, rounds: int, seconds: float, folder: Path, say: Callable[[str], None]
) -> EmbeddedRun:
    """Measure all contestants in each round. Every measurement uses a new file and deletes it afterwards."""
    open_each_once(contestants, folder)
    run = EmbeddedRun(benchmark="embedded", machine=Machine.here(folder), seconds=seconds)
    meter = StealMeter()
    for number in range(rounds):
        say(f"round {number + 1} of {rounds}")
        turn = number % len(contestants)
        measure_round(run, [*contestants[turn:], *contestants[:turn]], folder)
        run.steal.append(meter.share())
    return run


def measure_round(run: EmbeddedRun, contestants: Sequence[Contestant], folder: Path) -> None:
    for each in MEASURES:
        for contestant in filter(each.applies_to, contestants):
            with new_folder(folder) as place, closing(contestant.open(place)) as queue:
                run.of(contestant.name, each.name).per_second.append(each.rate(queue, run.seconds))
    for batch, name in SHARED.items():
        for contestant in contestants:
            if contestant.shares_a_file:
                with new_folder(folder) as place:
                    shared = share_file(contestant, batch, run.seconds, place)
                readings = run.of(contestant.name, name)
                readings.per_second.append(shared.per_second)
                readings.shares.append(shared.shares)


def open_each_once(contestants: Sequence[Contestant], folder: Path) -> None:
    """Fail early if a contestant cannot be opened."""
    for contestant in contestants:
        with new_folder(folder) as place:
            contestant.open(place).close()
