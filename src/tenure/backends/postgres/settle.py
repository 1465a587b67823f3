"""End claims: settle by the holder, reap after expiry."""

from collections.abc import Collection, Iterator, Sequence
from itertools import count
from typing import Any, Protocol, TypeVar

from tenure.backends.postgres.database import Database
from tenure.backends.postgres.encoding import array, integer_array, microseconds, optional_array, text_array
from tenure.backends.postgres.pipeline import BoundQuery
from tenure.core.job import State
from tenure.core.operations import BUSY, SILENT_WORKER_TTL, Hold, Reaped, Settled, Settlement


class HolderRequest(Protocol):
    """A request that only the holder of the claim may make."""

    @property
    def hold(self) -> Hold: ...


H = TypeVar("H", bound=HolderRequest)


class SettleBatch:
    """The queries that settle a list of claims, and the reading of their results."""

    def __init__(self, database: Database, settlements: Sequence[Settlement]) -> None:
        self._parts = [_split_completions(part) for part in _parts(settlements)]
        self._count = len(settlements)
        self.queries: list[BoundQuery] = []
        for complete, end in self._parts:
            if complete:
                self.queries.append(_complete_query(database, [settlement for _, settlement in complete]))
            if end:
                self.queries.append(_end_query(database, [settlement for _, settlement in end]))

    @property
    def only_completes(self) -> bool:
        """Whether all settlements are completions, so that no job becomes claimable."""
        return all(not end for _, end in self._parts)

    def read_settled(self, results: Sequence[Any]) -> list[Settled]:
        """Return what became of each settlement, from the results of the queries."""
        settled: list[Settled] = [True] * self._count
        remaining = iter(results)
        for kinds in self._parts:
            for kind in kinds:
                lost, busy = next(remaining) if kind else ((), ())
                for number in lost:
                    settled[kind[number - 1][0]] = False
                for number in busy:
                    settled[kind[number - 1][0]] = BUSY
        return settled


def settle(database: Database, settlements: Sequence[Settlement]) -> list[Settled]:
    settling = SettleBatch(database, settlements)
    return settling.read_settled(database.execute(settling.queries)) if settling.queries else []


def reap_expired_query(database: Database, limit: int, token: str | None = None) -> BoundQuery:
    """Return the query that reaps expired claims. The query does nothing if `token` holds jobs."""
    values = {"limit": limit, "token": token, "evidence_kept": microseconds(SILENT_WORKER_TTL), "now": database.now()}
    return BoundQuery(database.statements["reap"]["expired"], values)


def reap_worker_query(database: Database, worker: str, started: Collection[str] | None, limit: int) -> BoundQuery:
    """Return the query that reaps the claims of a worker."""
    values = {
        "worker": worker,
        "started": optional_array(started),
        "limit": limit,
        "evidence_kept": microseconds(SILENT_WORKER_TTL),
        "now": database.now(),
    }
    return BoundQuery(database.statements["reap"]["of the worker"], values)


def parse_reaped(rows: Sequence[Any]) -> list[Reaped]:
    return [Reaped(id=id, state=State(state), worker=worker, fence=fence) for id, state, worker, fence in rows]


def split_by_job(requests: Sequence[H]) -> Iterator[list[H]]:
    """Split requests so that no part names a job twice: the second request must see the effect of the first."""
    if len({each.hold.id for each in requests}) == len(requests):
        yield list(requests)
        return
    part: dict[str, H] = {}
    for each in requests:
        if each.hold.id in part:
            yield list(part.values())
            part = {}
        part[each.hold.id] = each
    yield list(part.values())


def hold_values(requests: Sequence[HolderRequest]) -> dict[str, Any]:
    """Return ids, fences and tokens of the claims as query values."""
    return {
        "ids": text_array([each.hold.id for each in requests]),
        "fences": integer_array(each.hold.fence for each in requests),
        "tokens": text_array([each.hold.token for each in requests]),
    }


NumberedSettlements = list[tuple[int, Settlement]]
"""Settlements with their positions in the request."""


def _parts(settlements: Sequence[Settlement]) -> Iterator[NumberedSettlements]:
    numbers = count()
    for part in split_by_job(settlements):
        yield [(next(numbers), settlement) for settlement in part]


def _split_completions(part: NumberedSettlements) -> tuple[NumberedSettlements, NumberedSettlements]:
    """Split into completions and all other settlements."""
    complete = [(number, each) for number, each in part if each.state is State.COMPLETED]
    if len(complete) == len(part):
        return part, []
    return complete, [(number, each) for number, each in part if each.state is not State.COMPLETED]


def _complete_query(database: Database, settlements: Sequence[Settlement]) -> BoundQuery:
    values = {
        **hold_values(settlements),
        "results": text_array([each.result for each in settlements]),
        "results_dropped": integer_array(each.result_dropped for each in settlements),
        "now": database.now(),
    }
    return BoundQuery(database.statements["settle"]["complete"], values)


def _end_query(database: Database, settlements: Sequence[Settlement]) -> BoundQuery:
    values = {
        **hold_values(settlements),
        "outcomes": array(each.outcome for each in settlements),
        "states": array(each.state for each in settlements),
        "attempts": array(each.attempts for each in settlements),
        "delays": array(None if each.delay is None else microseconds(each.delay) for each in settlements),
        "errors": array(each.error for each in settlements),
        "now": database.now(),
    }
    return BoundQuery(database.statements["settle"]["end"], values)
