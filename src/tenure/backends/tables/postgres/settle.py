"""Settle claims, reap claims and extend leases.

A request of a holder is one JSON text, both for the store's own connection and for the caller's transaction.
"""

import json
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Protocol, TypeVar

from tenure.backends.postgres.encoding import microseconds
from tenure.backends.postgres.pipeline import BoundQuery
from tenure.backends.tables.postgres.bound_table import BoundTable
from tenure.backends.tables.postgres.keys import KeyTexts
from tenure.backends.tables.postgres.sql_templates import REJECTION_FRAGMENTS
from tenure.backends.tables.row_batches import NO_EFFECT, ReapedRows, Reaping
from tenure.core.job import State
from tenure.core.operations import BUSY, Extension, Hold, HoldStatus, Reaped, Settled, Settlement, Unsettled

PREVENTED = "prevented"
LANDED = "landed"
SETTLED: Mapping[str, Settled] = {
    LANDED: True,
    HoldStatus.LOST: False,
    HoldStatus.BUSY: BUSY,
    HoldStatus.REJECTED: Unsettled(NO_EFFECT),
}
"""The result of a settlement, by its name in the response."""


class RowHolderRequest(Protocol):
    """A request that only the holder of a claim may make."""

    @property
    def hold(self) -> Hold: ...


H = TypeVar("H", bound=RowHolderRequest)

NumberedRequests = list[tuple[int, KeyTexts, H]]
"""Requests, each with its position in the input and the key of its row."""


def split_by_row(bound_table: BoundTable, requests: Sequence[H]) -> Iterator[NumberedRequests[H]]:
    """Split the requests into rounds without duplicate rows: the second request for a row must see the first.

    The first round contains every row, so one statement locks all rows in one order. Requests with an impossible id are
    omitted.
    """
    keys = [bound_table.keys.key_of(each.hold.id) for each in requests]
    if None in keys:
        # The type of the key may have changed since its row was claimed, for example from integer to bigint.
        bound_table.invalidate()
        keys = [bound_table.keys.key_of(each.hold.id) for each in requests]
    numbered = enumerate(zip(keys, requests, strict=True))
    remaining = [(number, key, each) for number, (key, each) in numbered if key is not None]
    while remaining:
        first: dict[KeyTexts, tuple[int, KeyTexts, H]] = {}
        later: NumberedRequests[H] = []
        for number, key, each in remaining:
            if key in first:
                later.append((number, key, each))
            else:
                first[key] = (number, key, each)
        yield list(first.values())
        remaining = later


def settlements_json(
    bound_table: BoundTable, requests: NumberedRequests[Settlement], identity: str | None = None
) -> str:
    """Return settlements as the JSON for the statement, with the identity of the expected table, if any."""
    return _request_json(bound_table, identity, [_settlement_json(key, each) for _, key, each in requests])


def extensions_json(bound_table: BoundTable, requests: NumberedRequests[Extension], identity: str | None = None) -> str:
    """Return extensions as the JSON for the statement."""
    return _request_json(bound_table, identity, [_extension_json(key, each) for _, key, each in requests])


class RowSettleBatch:
    """Settlements of claims: the queries to run, and the decoding of their results."""

    def __init__(self, bound_table: BoundTable, settlements: Sequence[Settlement]) -> None:
        self._count = len(settlements)
        self._rounds = list(split_by_row(bound_table, settlements))
        self.queries = [
            bound_table.build_query("settle", "settle", {"request": settlements_json(bound_table, each)})
            for each in self._rounds
        ]

    def read_settled(self, results: Sequence[Any]) -> list[Settled]:
        """Return what became of each settlement, from the results of the queries."""
        return [SETTLED[each] for each in merge_results(self._rounds, results, self._count)]


def extend(bound_table: BoundTable, extensions: Sequence[Extension], timeout: float) -> list[HoldStatus]:
    batches = list(split_by_row(bound_table, extensions))
    queries = [
        bound_table.build_query("extend", "extend", {"request": extensions_json(bound_table, each)}) for each in batches
    ]
    results = bound_table.write(queries, timeout, is_for_leases=True) if queries else []
    return [HoldStatus(each) for each in merge_results(batches, results, len(extensions))]


def merge_results(batches: Sequence[NumberedRequests[Any]], results: Sequence[Any], count: int) -> list[str]:
    """Return the result for each request in input order; a request with an impossible id is lost."""
    found = [HoldStatus.LOST.value] * count
    for batch, result in zip(batches, results, strict=True):
        _, _, values = result
        for (number, _, _), value in zip(batch, values, strict=True):
            found[number] = value
    return found


def reap_query(
    bound_table: BoundTable,
    reaping: Reaping,
    limit: int,
    *,
    token: str | None = None,
    avoided: Sequence[KeyTexts] = (),
    chosen: Sequence[KeyTexts] | None = None,
    rejection: str | None = None,
) -> BoundQuery:
    """Return the query that reaps claims: none if the token holds rows.

    With a rejection, the query fails the rows with this message.
    """
    keys = [key for id in reaping.started or () if (key := bound_table.keys.key_of(id)) is not None]
    values = {
        "limit": limit,
        "token": token,
        "had": 0,
        "worker": reaping.worker,
        "all_started": reaping.started is None,
        "rejection": rejection,
        **bound_table.keys.values(keys),
    }
    name = "expired" if reaping.worker is None else "of the worker"
    changed = {} if rejection is None else REJECTION_FRAGMENTS
    return bound_table.build_choice_query("reap", name, values, changed, avoided=avoided, chosen=chosen)


def parse_reaped(bound_table: BoundTable, rows: Sequence[Any]) -> ReapedRows[KeyTexts]:
    reaped = [
        Reaped(id=bound_table.keys.id_of(key), state=State(state), worker=worker, fence=fence)
        for key, state, worker, fence, has_ended in rows
        if has_ended
    ]
    return ReapedRows(reaped=reaped, missed=[tuple(key) for key, *_, has_ended in rows if not has_ended])


def _request_json(bound_table: BoundTable, identity: str | None, claims: list[dict[str, Any]]) -> str:
    now = bound_table.database.now()
    request = {"table": identity, "now": None if now is None else now.isoformat(), "claims": claims}
    return json.dumps(request, ensure_ascii=False)


def _settlement_json(key: KeyTexts, settlement: Settlement) -> dict[str, Any]:
    record_changes = {
        "result": settlement.result,
        "result_dropped": settlement.result_dropped or None,
        "found_done": PREVENTED if settlement.found_done else None,
    }
    return {
        "key": key,
        "fence": settlement.hold.fence,
        "token": settlement.hold.token,
        "outcome": settlement.outcome,
        "state": settlement.state,
        "attempts": settlement.attempts,
        "delay": None if settlement.delay is None else microseconds(settlement.delay),
        "error": settlement.error,
        "added": {name: value for name, value in record_changes.items() if value is not None},
    }


def _extension_json(key: KeyTexts, extension: Extension) -> dict[str, Any]:
    progress = extension.progress
    progress_json = None if progress is None else {"done": progress.done, "of": progress.of, "note": progress.note}
    return {
        "key": key,
        "fence": extension.hold.fence,
        "token": extension.hold.token,
        "lease": microseconds(extension.lease),
        "added": {} if progress_json is None else {"progress": progress_json},
    }
