"""Print a run of the PostgreSQL benchmark as tables of at most a hundred columns."""

from collections.abc import Sequence
from statistics import median

from rich.console import Console
from rich.table import Table

from benchmarks.cells import ratio, spread
from benchmarks.postgres.contract import Contestant
from benchmarks.postgres.measuring import DRAIN, ENQUEUE, PostgresRun, Used
from benchmarks.readings import Readings
from benchmarks.report import WIDTH, new_table, short, steal

PEER = "pgqueuer"
EXPLAINED = (
    "drain: jobs per second while draining a backlog. of raw: the ratio within the same rounds to the fastest bare "
    f"loop; of {PEER}: the same to the peer. Below, the smallest and the greatest. client, server: CPU time in "
    "µs per job. enqueue N: jobs per second, N jobs per call.\n"
)


def show(run: PostgresRun, contestants: Sequence[Contestant]) -> None:
    console = Console(width=WIDTH, highlight=False)
    console.print(f"\n[bold]{run.benchmark}[/bold]: {run.jobs:,} empty jobs; rounds: {len(run.steal)}")
    console.print(f"{run.machine}\n{server(run)}\n{steal(run)}", style="dim")
    yardstick = fastest(run, [each for each in contestants if each.is_raw])
    console.print(drained(run, contestants, yardstick))
    console.print(rounds(run, contestants, yardstick))
    if any(not each.is_raw for each in contestants):
        console.print(enqueued(run, contestants))
    console.print(EXPLAINED)
    for contestant in contestants:
        console.print(f"[bold]{contestant.name}[/bold]: {contestant.about}.")


def server(run: PostgresRun) -> str:
    """Return version and settings of the server in one line."""
    (_, version), *settings = run.server.items()
    return f"PostgreSQL {version}; " + ", ".join(f"{name} {value}" for name, value in settings)


def fastest(run: PostgresRun, contestants: Sequence[Contestant]) -> Readings | None:
    """Return the drain readings of the fastest contestant, by median."""
    drains = [run.of(each.name, DRAIN) for each in contestants]
    return max(drains, key=lambda readings: median(readings.per_second), default=None)


def drained(run: PostgresRun, contestants: Sequence[Contestant], yardstick: Readings | None) -> Table:
    table = new_table()
    for column in (DRAIN, "of raw", f"of {PEER}", "µs a job", "client", "server"):
        table.add_column(column, justify="right")
    peer = run.readings.get((PEER, DRAIN))
    for contestant in contestants:
        readings = run.of(contestant.name, DRAIN)
        table.add_row(
            contestant.name,
            spread(readings),
            ratio(readings, yardstick),
            ratio(readings, peer),
            f"{1_000_000 / median(readings.per_second):.1f}",
            *processor(run.used[contestant.name]),
        )
    return table


def rounds(run: PostgresRun, contestants: Sequence[Contestant], yardstick: Readings | None) -> Table:
    """Return the table of single rounds, with the ratios to the yardsticks."""
    table = new_table()
    for number, _ in enumerate(run.steal, start=1):
        table.add_column(f"round {number}", justify="right")
    for contestant in contestants:
        table.add_row(contestant.name, *map(short, run.of(contestant.name, DRAIN).per_second))
    for other in (yardstick, run.readings.get((PEER, DRAIN))):
        for contestant in contestants:
            readings = run.of(contestant.name, DRAIN)
            if other is not None and readings is not other and not contestant.is_raw:
                ratios = (f"×{each:.2f}" for each in readings.ratios_to(other))
                table.add_row(f"{contestant.name} of {other.contestant}", *ratios)
    return table


def enqueued(run: PostgresRun, contestants: Sequence[Contestant]) -> Table:
    table = new_table()
    for measure in ENQUEUE.values():
        table.add_column(measure, justify="right")
        table.add_column(f"of {PEER}", justify="right")
    for contestant in contestants:
        if not contestant.is_raw:
            cells = [enqueue_cells(run, contestant, measure) for measure in ENQUEUE.values()]
            table.add_row(contestant.name, *(cell for pair in cells for cell in pair))
    return table


def enqueue_cells(run: PostgresRun, contestant: Contestant, measure: str) -> tuple[str, str]:
    readings = run.of(contestant.name, measure)
    return spread(readings), ratio(readings, run.readings.get((PEER, measure)))


def processor(used: Sequence[Used]) -> tuple[str, str]:
    served = [each.server for each in used if each.server is not None]
    return f"{median(each.client for each in used):.1f}", f"{median(served):.1f}" if served else "–"
