"""Print a run of the worker benchmark as tables of at most a hundred columns."""

from collections.abc import Sequence
from statistics import median, quantiles

from rich.console import Console
from rich.table import Table

from benchmarks.report import WIDTH, new_table, short, steal
from benchmarks.worker.contract import Contestant
from benchmarks.worker.costs import PARTS
from benchmarks.worker.measuring import DRAIN, WorkerRun

EXPLAINED = (
    "jobs a second: speed of draining a backlog; for huey, from the first task to the last, for the others including "
    "start and stop. In brackets the smallest and the greatest. of the store: the ratio within the "
    "same rounds to the store without a worker. waited: from the call of enqueue to the start of the handler, with an "
    "idle worker, one job at a time; on SQLite the client is another process.\n"
)
COSTS_EXPLAINED = (
    "µs a job: CPU time of each part, measured separately from the rounds. wall: wall time; more than the sum if "
    "threads waited, less if two parts ran in parallel.\n"
)


def show(run: WorkerRun, contestants: Sequence[Contestant]) -> None:
    console = Console(width=WIDTH, highlight=False)
    console.print(f"\n[bold]{run.benchmark}[/bold]: {run.jobs:,} empty jobs; rounds: {len(run.steal)}")
    console.print(f"{run.machine}\n{steal(run)}", style="dim")
    console.print(speeds(run, contestants))
    console.print(EXPLAINED)
    if run.costs:
        console.print(costs(run))
        console.print(COSTS_EXPLAINED)
    for contestant in contestants:
        console.print(f"[bold]{contestant.name}[/bold]: {contestant.about}.")


def speeds(run: WorkerRun, contestants: Sequence[Contestant]) -> Table:
    table = new_table()
    for column in ("jobs a second", "µs a job", "of the store", "waited, median", "99 of 100"):
        table.add_column(column, justify="right")
    for contestant in contestants:
        table.add_row(contestant.name, *drained(run, contestant), *waited(run.waits.get(contestant.name)))
    return table


def drained(run: WorkerRun, contestant: Contestant) -> tuple[str, str, str]:
    readings = run.of(contestant.name, DRAIN)
    middle = median(readings.per_second)
    spread = f"({short(min(readings.per_second))}–{short(max(readings.per_second))})"
    store = run.readings.get((contestant.against, DRAIN))
    ratio = "–" if store is None else f"×{readings.ratio_to(store):.2f}"
    return f"{short(middle)} {spread}", f"{1_000_000 / middle:.1f}", ratio


def waited(milliseconds: list[float] | None) -> tuple[str, str]:
    if milliseconds is None:
        return "–", "–"
    last = quantiles(milliseconds, n=100, method="inclusive")[-1]
    return f"{median(milliseconds):.1f} ms", f"{last:.1f} ms"


def costs(run: WorkerRun) -> Table:
    table = new_table()
    for column in (*PARTS, "sum", "wall"):
        table.add_column(column, justify="right")
    for each in run.costs:
        numbers = (*each.parts.values(), sum(each.parts.values()), each.wall)
        table.add_row(each.contestant, *(f"{number:.1f}" for number in numbers))
    return table
