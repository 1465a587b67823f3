"""The worker benchmark: rounds of drain and latency measurements, then CPU time by part."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from benchmarks.machine import Machine, StealMeter, new_folder
from benchmarks.readings import Run
from benchmarks.worker.contract import Contestant
from benchmarks.worker.costs import Costs, costs
from benchmarks.worker.draining import drain_rate
from benchmarks.worker.latency import waits

DRAIN = "drain"
LOOKED_INTO = ("memory-async", "memory-sync", "sqlite-async", "sqlite-sync")


@dataclass(slots=True, kw_only=True)
class WorkerRun(Run):
    jobs: int
    """Jobs per contestant and round."""
    waits: dict[str, list[float]] = field(default_factory=dict)
    """By contestant: the milliseconds that each job waited for an idle worker."""
    costs: list[Costs] = field(default_factory=list)


def measure(
    contestants: Sequence[Contestant], *, rounds: int, jobs: int, waited: int, folder: Path, say: Callable[[str], None]
) -> WorkerRun:
    """Measure all contestants in each round. Every measurement uses a new process and a new file."""
    open_each_once(contestants, folder)
    run = WorkerRun(benchmark="worker", machine=Machine.here(folder), jobs=jobs)
    meter = StealMeter()
    for number in range(rounds):
        say(f"round {number + 1} of {rounds}")
        turn = number % len(contestants)
        for contestant in [*contestants[turn:], *contestants[:turn]]:
            run.of(contestant.name, DRAIN).per_second.append(drain_rate(contestant.name, jobs, folder))
            if contestant.service is not None:
                run.waits.setdefault(contestant.name, []).extend(waits(contestant.name, -(-waited // rounds), folder))
        run.steal.append(meter.share())
    say("where the time goes")
    run.costs = [costs(each.name, jobs, folder) for each in contestants if each.name in LOOKED_INTO]
    return run


def open_each_once(contestants: Sequence[Contestant], folder: Path) -> None:
    """Fail early if a contestant cannot be opened."""
    for contestant in contestants:
        with new_folder(folder) as place:
            contestant.backlog(place).close()
