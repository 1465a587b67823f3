"""The statements of `exchange` in a bare loop, without the worker and its objects.

One connection completes a batch and claims the next in one transaction and one round trip, with the same hints as a
worker. No handler runs, nothing is checked and no job is built; the response is only decoded.
"""

import secrets
from collections.abc import Iterator, Sequence
from contextlib import closing
from time import perf_counter

from benchmarks.contestants.contract import LEASE
from benchmarks.postgres.tenures import TYPE, TenureQueue
from tenure.backends.postgres.address import address_of
from tenure.backends.postgres.claim import Hint, ScanPosition, queries, rows_of
from tenure.backends.postgres.database import Database
from tenure.backends.postgres.encoding import array
from tenure.backends.postgres.pipeline import BEGIN, COMMIT, BoundQuery, PipelineConnection
from tenure.backends.postgres.rows import JsonRow
from tenure.core.operations import ClaimRequest
from tenure.worker.work_source import HINT_TTL

ID, KIND, QUEUE, PRIORITY, RUN_AT, FENCE, SEQUENCE = 0, 1, 2, 4, 5, 11, -1
"""Positions of the columns in a row."""


class RawQueue(TenureQueue):
    """Enqueues with tenure's client."""

    def __init__(self, url: str, batch: int) -> None:
        super().__init__(url)
        self._address = address_of(url, url)
        self._database = Database(self._address, clock=None)
        self._batch = batch

    def drain(self) -> float:
        started = perf_counter()
        with closing(PipelineConnection(self._address.connect(), self._address.timeout, uses_prepare=True)) as wire:
            rows: Sequence[JsonRow] = []
            token, hint, looked_at = "", None, started
            while True:
                settling = self._completing(rows, token)
                token = secrets.token_hex(16)
                claiming = queries(self._database, self._request(token, hint))
                *_, (_, _, _, _, columns), _ = wire.execute(
                    [BoundQuery(BEGIN), *settling, *claiming, BoundQuery(COMMIT)]
                )
                rows = rows_of(columns)
                if not rows and hint is None:
                    return perf_counter() - started
                if hint is None:
                    looked_at = perf_counter()
                is_known = len(rows) == self._batch and perf_counter() - looked_at < HINT_TTL
                hint = hint_behind(rows[-1]) if is_known else None

    def _request(self, token: str, hint: Hint | None) -> ClaimRequest:
        return ClaimRequest(types=(TYPE,), limit=self._batch, lease=LEASE, worker="worker", token=token, hint=hint)

    def _completing(self, rows: Sequence[JsonRow], token: str) -> Iterator[BoundQuery]:
        if not rows:
            return
        statements = self._database.statements["settle"]
        ids = array(row[ID] for row in rows)
        yield BoundQuery(statements["lock"], {"ids": ids})
        values = {
            "ids": ids,
            "fences": array(row[FENCE] for row in rows),
            "tokens": array([token] * len(rows)),
            "results": array(["null"] * len(rows)),
            "results_dropped": array([False] * len(rows)),
            "now": None,
        }
        yield BoundQuery(statements["complete"], values)


def hint_behind(row: JsonRow) -> Hint:
    """Return the hint: the scan position of the only lane."""
    return Hint({(row[QUEUE], row[KIND]): ScanPosition(-row[PRIORITY], row[RUN_AT], row[SEQUENCE])}, 1.0)
