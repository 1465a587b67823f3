"""Whether the cost of a claim depends on the size of the store: duration of its script as the store fills up."""

from collections.abc import Iterator
from contextlib import closing
from dataclasses import dataclass

from benchmarks.redis.apps.tenures import AWAITED
from benchmarks.redis.scripts import entries
from benchmarks.redis.server import Server
from benchmarks.redis.stopwatch import ScriptTime, Stopwatch, stopwatch
from benchmarks.redis.store import request
from tenure.backends.protocol import Backend
from tenure.backends.urls import open_backend
from tenure.core.operations import LARGEST_BATCH, ClaimRequest, Hold
from tenure.core.transitions import build_completion

LIMITS = (1, 100)
FEW = 1_000
HIGH = 1_000
"""A priority above that of the claimed jobs."""
TOMORROW = 86_400.0


@dataclass(frozen=True, slots=True, kw_only=True)
class ClaimTimes:
    """What was added to the store, and how long claims take then, by limit."""

    stored: str
    claims: list[ScriptTime]


def claim_times(server: Server, *, many: int, repeats: int) -> list[ClaimTimes]:
    """Claim `repeats` times with each limit; repeat after every `many` further jobs in the store."""
    server.empty()
    with stopwatch(server) as watch, closing(open_backend(server.url)) as store:
        return [
            ClaimTimes(stored=stored, claims=[timed(watch, store, limit, repeats) for limit in LIMITS])
            for stored in filled(store, many)
        ]


def filled(store: Backend, many: int) -> Iterator[str]:
    """Fill the store step by step; yield a description of each step."""
    few = min(FEW, many)
    fill(store, few)
    yield f"{few:,} due"
    fill(store, many)
    yield f"+ {many:,} due"
    fill(store, many, priority=HIGH, delay=TOMORROW)
    yield f"+ {many:,} scheduled, of higher priority"
    fill(store, many, priority=HIGH, type="other")
    yield f"+ {many:,} due of another type, of higher priority"
    fill(store, many)
    finish(store, many)
    yield f"+ {many:,} finished"


def timed(watch: Stopwatch, store: Backend, limit: int, repeats: int) -> ScriptTime:
    """Claim `repeats` times; then complete the claimed jobs, and store as many new ones."""
    claimed: list[list[Hold]] = []
    given = [(request(limit),) for _ in range(repeats)]
    time = watch.time(f"claim {limit}", lambda each: claimed.append(claim(store, each)), given)
    if any(len(holds) != limit for holds in claimed):
        raise RuntimeError(f"too few jobs were due for {repeats} claims of {limit}; store more")
    for holds in claimed:
        store.settle([build_completion(hold) for hold in holds])
        fill(store, len(holds))
    return time


def claim(store: Backend, asked: ClaimRequest) -> list[Hold]:
    return [Hold(id=job.id, fence=job.fence, token=asked.token) for job in store.claim(asked).jobs]


def fill(store: Backend, number: int, *, type: str = AWAITED, priority: int = 0, delay: float = 0.0) -> None:
    for start in range(0, number, LARGEST_BATCH):
        store.enqueue(entries(min(LARGEST_BATCH, number - start), type=type, priority=priority, delay=delay))


def finish(store: Backend, number: int) -> None:
    for start in range(0, number, LARGEST_BATCH):
        holds = claim(store, request(min(LARGEST_BATCH, number - start)))
        store.settle([build_completion(hold) for hold in holds])
