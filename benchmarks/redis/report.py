"""Print a run of the Redis benchmark as tables of at most a hundred columns."""

from collections.abc import Sequence
from statistics import median

from rich.console import Console
from rich.table import Table

from benchmarks.cells import ratio, spread
from benchmarks.readings import Readings
from benchmarks.redis.contention import PROCESSES, TAKERS
from benchmarks.redis.contract import Contestant
from benchmarks.redis.field import PEERS, RAW
from benchmarks.redis.measuring import CONTENTION, RedisRun
from benchmarks.redis.turns import BULK, DRAIN, ENQUEUE
from benchmarks.report import WIDTH, new_table, short, steal
from benchmarks.worker.report import waited

EXPLAINED = (
    "drain: jobs per second, from the start of the first job until no job is left. of raw: the ratio within the same "
    "rounds to the bare loop; of the peer: the ratio to the faster peer with acknowledgements. Below, the "
    "smallest and the greatest. worker, server: CPU time in µs per job. waited: from the call of enqueue "
    "to the start of the handler in an idle worker. enqueue N: jobs per second, N jobs per call. queued, finished: "
    "bytes of server memory per job.\n"
)
CONTENTION_EXPLAINED = (
    f"{PROCESSES} processes claim and complete one job at a time. watch: WATCH, MULTI, EXEC, with retries after a "
    "conflict. tenure: claim and settle. tries: attempts per job.\n"
)
SCRIPTS_EXPLAINED = (
    "ms for which one script blocks the server, measured by the server: the median and the longest. scripts: number "
    "of scripts per call; the time is that of the longest script.\n"
)
CLAIMS_EXPLAINED = (
    "µs of the script of a claim, the median, as the store fills up: each line adds to the lines above.\n"
)


def show(run: RedisRun, contestants: Sequence[Contestant]) -> None:
    console = Console(width=WIDTH, highlight=False)
    console.print(f"\n[bold]{run.benchmark}[/bold]: empty jobs of 100 bytes; rounds: {len(run.steal)}")
    console.print(f"{run.machine}\n{servers(run)}\n{steal(run)}", style="dim")
    console.print(drained(run, contestants))
    console.print(enqueued(run, contestants))
    console.print(EXPLAINED)
    console.print(contended(run))
    console.print(CONTENTION_EXPLAINED)
    console.print(held(run))
    console.print(SCRIPTS_EXPLAINED)
    console.print(claimed(run))
    console.print(CLAIMS_EXPLAINED)
    for contestant in contestants:
        console.print(f"[bold]{contestant.name}[/bold]: {contestant.about}.")


def servers(run: RedisRun) -> str:
    """Return version and settings of every server in a line."""
    told = [dict(settings) for settings in run.servers.values()]
    return "\n".join(
        f"{each.pop('server')}; " + ", ".join(f"{name} {value}" for name, value in each.items()) for each in told
    )


def faster_peer(run: RedisRun, measure: str) -> Readings | None:
    """Return the readings of the faster contestant, by median."""
    found = [readings for name in PEERS if (readings := run.readings.get((name, measure)))]
    return max(found, key=lambda readings: median(readings.per_second), default=None)


def drained(run: RedisRun, contestants: Sequence[Contestant]) -> Table:
    table = new_table()
    yardstick, peer = run.readings.get((RAW, DRAIN)), faster_peer(run, DRAIN)
    for column in (DRAIN, "of raw", "of the peer", "worker", "server", "waited", "99 of 100"):
        table.add_column(column, justify="right")
    for contestant in contestants:
        readings, used = run.of(contestant.name, DRAIN), run.used[contestant.name]
        table.add_row(
            contestant.name,
            spread(readings),
            ratio(readings, yardstick),
            ratio(readings, peer),
            middle([each.worker for each in used]),
            middle([each.server for each in used]),
            *waited(run.waits.get(contestant.name)),
        )
    return table


def enqueued(run: RedisRun, contestants: Sequence[Contestant]) -> Table:
    table = new_table()
    for column in (ENQUEUE[1], "of the peer", ENQUEUE[BULK], "queued", "finished"):
        table.add_column(column, justify="right")
    peer = faster_peer(run, ENQUEUE[1])
    for contestant in contestants:
        single, bulk = run.of(contestant.name, ENQUEUE[1]), run.readings.get((contestant.name, ENQUEUE[BULK]))
        memory = run.memory[contestant.name]
        table.add_row(
            contestant.name,
            spread(single),
            ratio(single, peer),
            "–" if bulk is None else spread(bulk),
            f"{median(each.queued for each in memory):.0f} B",
            f"{median(each.finished for each in memory):.0f} B",
        )
    return table


def contended(run: RedisRun) -> Table:
    table = new_table()
    for column in (f"{PROCESSES} processes", "of watch", "tries", "most tries"):
        table.add_column(column, justify="right")
    for name in TAKERS:
        readings, tries = run.of(name, CONTENTION), run.tries[name]
        ratios = ratio(readings, run.of("watch", CONTENTION))
        table.add_row(name, spread(readings), ratios, f"{median(tries):.2f}", f"{max(tries):.2f}")
    return table


def held(run: RedisRun) -> Table:
    table = new_table()
    for column in ("ms, median", "longest", "scripts"):
        table.add_column(column, justify="right")
    for each in run.scripts:
        numbers = (median(each.microseconds), max(each.microseconds))
        table.add_row(each.operation, *(f"{number / 1_000:.1f}" for number in numbers), str(each.scripts))
    return table


def claimed(run: RedisRun) -> Table:
    table = new_table()
    for claim in run.claims[0].claims:
        table.add_column(claim.operation, justify="right")
    for each in run.claims:
        table.add_row(each.stored, *(short(median(claim.microseconds)) for claim in each.claims))
    return table


def middle(numbers: Sequence[float | None]) -> str:
    known = [each for each in numbers if each is not None]
    return f"{median(known):.1f}" if known else "–"
