"""Print a run as tables of at most a hundred columns."""

from collections.abc import Sequence
from statistics import median

from rich import box
from rich.console import Console
from rich.table import Table

from benchmarks.contestants.contract import Contestant
from benchmarks.embedded import SHARED, EmbeddedRun
from benchmarks.measures import MEASURES
from benchmarks.readings import Readings, Run

WIDTH = 100
THOUSAND, MILLION = 1_000, 1_000_000
EXPLAINED = (
    "claim N: claim and complete N jobs per call. enqueue N: enqueue N jobs per call. Cells: the median; the ratio "
    "within the same rounds, of tenure to bare, of the others to raw (to the -normal contestants if commits do not "
    "wait for the disk); below, the smallest and the greatest number. "
    "shares: the shares of the slowest and the fastest process; 25% is fair.\n"
)


def show(run: EmbeddedRun, contestants: Sequence[Contestant]) -> None:
    console = Console(width=WIDTH, highlight=False)
    console.print(
        f"\n[bold]{run.benchmark}[/bold]: jobs per second; rounds: {len(run.steal)}, of {run.seconds:g} s each"
    )
    console.print(f"{run.machine}\n{steal(run)}", style="dim")
    console.print(alone(run, contestants))
    if any(contestant.shares_a_file for contestant in contestants):
        console.print(together(run, contestants))
    console.print(EXPLAINED)
    for contestant in contestants:
        console.print(f"[bold]{contestant.name}[/bold]: {contestant.about}.")


def alone(run: Run, contestants: Sequence[Contestant]) -> Table:
    table = new_table()
    for measure in MEASURES:
        table.add_column(measure.name, justify="right")
    for contestant in contestants:
        table.add_row(contestant.name, *(cell(run, contestant, each.name) for each in MEASURES))
    return table


def together(run: Run, contestants: Sequence[Contestant]) -> Table:
    table = new_table()
    for name in SHARED.values():
        table.add_column(name, justify="right")
        table.add_column("shares", justify="right")
    for contestant in contestants:
        if contestant.shares_a_file:
            cells = [(cell(run, contestant, name), shares(run.of(contestant.name, name))) for name in SHARED.values()]
            table.add_row(contestant.name, *(each for pair in cells for each in pair))
    return table


def new_table() -> Table:
    table = Table(box=box.SIMPLE_HEAD, pad_edge=False)
    table.add_column(no_wrap=True)
    return table


def cell(run: Run, contestant: Contestant, measure: str) -> str:
    readings = run.readings.get((contestant.name, measure))
    if readings is None:
        return "–"
    return (
        f"{short(median(readings.per_second))} {ratio(run, contestant, readings)}\n"
        f"[dim]{short(min(readings.per_second))}–{short(max(readings.per_second))}[/dim]"
    )


def ratio(run: Run, contestant: Contestant, readings: Readings) -> str:
    other = run.readings.get((contestant.against, readings.measure))
    return "     " if other is None else f"×{readings.ratio_to(other):.2f}"


def shares(readings: Readings) -> str:
    """Return the smallest and the greatest share of a process, in the median and in the worst round."""
    smallest, greatest = [each[0] for each in readings.shares], [each[-1] for each in readings.shares]
    return f"{median(smallest):.0%}–{median(greatest):.0%}\n[dim]worst {min(smallest):.0%}–{max(greatest):.0%}[/dim]"


def steal(run: Run) -> str:
    known = [each for each in run.steal if each is not None]
    if not known:
        return "steal time: unknown"
    return f"steal time: {min(known):.0%} to {max(known):.0%} per round"


def short(number: float) -> str:
    """Format a number with about three digits, such as 812, 2.58k, 12.5k, 183k or 2.17M."""
    if number < THOUSAND:
        return f"{number:.0f}"
    if number < MILLION:
        return f"{number / THOUSAND:#.3g}".rstrip(".") + "k"
    return f"{number / MILLION:#.3g}".rstrip(".") + "M"
