"""The Redis benchmark: all contestants run in each round; then script durations from the server."""

from collections.abc import Callable, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, field
from pathlib import Path

from benchmarks.alone import be_quiet
from benchmarks.machine import Machine, StealMeter
from benchmarks.readings import Run
from benchmarks.redis.contention import TAKERS, contend
from benchmarks.redis.contract import Contestant
from benchmarks.redis.flat import ClaimTimes, claim_times
from benchmarks.redis.scripts import script_times
from benchmarks.redis.server import DURABLE, FORGETTING, running
from benchmarks.redis.stopwatch import ScriptTime
from benchmarks.redis.turns import Amounts, Memory, Turn, Used, take_turn
from tenure.core.operations import LARGEST_BATCH

CONTENTION = "contention"
PACKAGES = ("tenure", "redis", "dramatiq", "taskiq", "taskiq-redis", "uvloop", "hiredis")


@dataclass(frozen=True, slots=True, kw_only=True)
class Scale:
    """The size of a benchmark."""

    rounds: int
    jobs: int | None = None
    """Jobs per contestant and round; None for the contestant's own number."""
    singles: int
    waited: int
    contended: dict[str, int]
    """Contended jobs by method."""
    stored: int
    """Jobs of each kind that fill the store."""
    batch: int = LARGEST_BATCH
    repeats: int


@dataclass(slots=True, kw_only=True)
class RedisRun(Run):
    servers: dict[str, dict[str, str]]
    jobs: dict[str, int]
    """By contestant: jobs per round."""
    used: dict[str, list[Used]] = field(default_factory=dict)
    memory: dict[str, list[Memory]] = field(default_factory=dict)
    waits: dict[str, list[float]] = field(default_factory=dict)
    """By contestant: the milliseconds that each job waited for an idle worker."""
    tries: dict[str, list[float]] = field(default_factory=dict)
    """Tries per job of ten processes, by method, in round order."""
    scripts: list[ScriptTime] = field(default_factory=list)
    claims: list[ClaimTimes] = field(default_factory=list)


def measure(contestants: Sequence[Contestant], scale: Scale, *, folder: Path, say: Callable[[str], None]) -> RedisRun:
    """Measure all contestants in each round. Every run uses new processes on an empty server."""
    # The store warns about a server without persistence.
    be_quiet()
    with ExitStack() as stack:
        forgetting = stack.enter_context(running(folder, FORGETTING))
        durable = stack.enter_context(running(folder, DURABLE))
        run = RedisRun(
            benchmark="redis",
            machine=Machine.here(folder, PACKAGES),
            servers={"forgetting": forgetting.settings, "durable": durable.settings},
            jobs={each.name: scale.jobs or each.jobs for each in contestants},
        )
        meter = StealMeter()
        for number in range(scale.rounds):
            say(f"round {number + 1} of {scale.rounds}")
            turn = number % len(contestants)
            for each in [*contestants[turn:], *contestants[:turn]]:
                server = durable if each.is_durable else forgetting
                amounts = Amounts(jobs=run.jobs[each.name], singles=scale.singles, waited=scale.waited)
                add(run, each, take_turn(each, amounts, server, folder))
            for name in TAKERS:
                contended = contend(name, scale.contended[name], forgetting)
                run.of(name, CONTENTION).per_second.append(contended.per_second)
                run.of(name, CONTENTION).shares.append(contended.shares)
                run.tries.setdefault(name, []).append(contended.tries)
            run.steal.append(meter.share())
        say("how long scripts block the server")
        run.scripts = script_times(forgetting, size=scale.batch, repeats=scale.repeats)
        run.claims = claim_times(forgetting, many=scale.stored, repeats=scale.repeats)
    return run


def add(run: RedisRun, contestant: Contestant, turn: Turn) -> None:
    for measure, rate in turn.per_second.items():
        run.of(contestant.name, measure).per_second.append(rate)
    run.used.setdefault(contestant.name, []).append(turn.used)
    run.memory.setdefault(contestant.name, []).append(turn.memory)
    if turn.waits:
        run.waits.setdefault(contestant.name, []).extend(turn.waits)
