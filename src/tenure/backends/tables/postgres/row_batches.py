"""Run batches of row operations on PostgreSQL, each in one transaction."""

import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace

from tenure.backends.postgres.batch_limit import BatchLimit
from tenure.backends.protocol import SWEEP
from tenure.backends.shared.isolation import PARTS, StatementTimedOut
from tenure.backends.tables.postgres import claim, settle
from tenure.backends.tables.postgres.bound_table import BoundTable
from tenure.backends.tables.postgres.keys import KeyTexts
from tenure.backends.tables.row_batches import ReapedRows, Reaping, Taken
from tenure.core.operations import ClaimRequest, Extension, HoldStatus, Settled, Settlement

BATCH_FRACTION = 1 / 5
"""Fraction of the timeout of the URL after which a statement is cancelled: one of its rows may be slow. With more rows,
the batch is split; a single row gets the whole timeout at last."""

EXTENSION_FRACTION, PATIENT_EXTENSION_FRACTION = 1 / 10, 1 / 6
"""Fraction of the shortest lease after which an extension is cancelled, and of a lease that is tried alone at last."""


class RowLimits:
    """How many rows to write at once. A trigger or `done_if` may be slow for each row."""

    def __init__(self, timeout: float) -> None:
        self.claims, self.settlements, self.extensions, self.reaps = (BatchLimit(timeout) for _ in range(4))


class PostgresRowBatches:
    def __init__(
        self, bound_table: BoundTable, limits: RowLimits, timeout: float, extension_fraction: float = EXTENSION_FRACTION
    ) -> None:
        self._bound_table = bound_table
        self._limits = limits
        self._timeout = timeout
        self._extension_fraction = extension_fraction

    @property
    def patient(self) -> "PostgresRowBatches":
        return PostgresRowBatches(
            self._bound_table, self._limits, self._bound_table.database.address.timeout, PATIENT_EXTENSION_FRACTION
        )

    @property
    def claim_limit(self) -> int:
        return self._limits.claims.most

    @property
    def settle_limit(self) -> int:
        return self._limits.settlements.most

    @property
    def extend_limit(self) -> int:
        return self._limits.extensions.most

    @property
    def reap_limit(self) -> int:
        return min(SWEEP, self._limits.reaps.most)

    def id_of(self, key: KeyTexts) -> str:
        return self._bound_table.keys.id_of(key)

    def settle(self, settlements: Sequence[Settlement]) -> list[Settled]:
        batch = settle.RowSettleBatch(self._bound_table, settlements)
        with _measured(self._limits.settlements, len(settlements)):
            results = self._bound_table.write(batch.queries, self._timeout) if batch.queries else []
        return batch.read_settled(results)

    def extend(self, extensions: Sequence[Extension]) -> list[HoldStatus]:
        shortest = min(each.lease for each in extensions)
        with _measured(self._limits.extensions, len(extensions)):
            return settle.extend(self._bound_table, extensions, min(self._timeout, self._extension_fraction * shortest))

    def exchange(
        self, settlements: Sequence[Settlement], request: ClaimRequest, avoided: Sequence[KeyTexts]
    ) -> tuple[list[Settled], Taken[KeyTexts]]:
        batch = settle.RowSettleBatch(self._bound_table, settlements)
        limit = self.reap_limit

        def send(limited: ClaimRequest) -> tuple[list[Settled], Taken[KeyTexts]]:
            reap = settle.reap_query(self._bound_table, Reaping(), limit, token=request.token, avoided=avoided)
            take = claim.take_query(self._bound_table, limited, avoided)
            started_at = time.monotonic()
            *settled, reaped, taken = self._bound_table.write([*batch.queries, reap, take], self._timeout)
            self._limits.reaps.record(len(reaped), started_at)
            unreaped = settle.parse_reaped(self._bound_table, reaped).missed
            rows = claim.read_taken(self._bound_table, limited, taken)
            return batch.read_settled(settled), replace(rows, unreaped=unreaped)

        return self._limits.claims.run(request, send, lambda response: len(response[1].jobs))

    def take(self, request: ClaimRequest, keys: Sequence[KeyTexts], already_taken: int) -> Taken[KeyTexts]:
        query = claim.take_rows_query(self._bound_table, request, keys, already_taken)
        with _measured(self._limits.claims, len(keys)):
            (result,) = self._bound_table.write([query], self._timeout)
        return claim.read_taken(self._bound_table, request, result)

    def due_keys(self, limit: int, avoided: Sequence[KeyTexts]) -> list[KeyTexts]:
        limited = min(limit, self._limits.claims.most)
        query = self._bound_table.build_choice_query("claim", "due keys", {"limit": limited}, avoided=avoided)
        (keys,) = self._bound_table.execute([query])
        return [tuple(key) for key in keys]

    def reap(self, reaping: Reaping, limit: int, avoided: Sequence[KeyTexts]) -> ReapedRows[KeyTexts]:
        query = settle.reap_query(self._bound_table, reaping, limit, avoided=avoided)
        with _lowered_after_timeout(self._limits.reaps, limit):
            (rows,) = self._bound_table.write([query], self._timeout, may_repeat=False)
        return settle.parse_reaped(self._bound_table, rows)

    def reap_rows(
        self, reaping: Reaping, keys: Sequence[KeyTexts], rejection: str | None = None
    ) -> ReapedRows[KeyTexts]:
        query = settle.reap_query(self._bound_table, reaping, len(keys), chosen=keys, rejection=rejection)
        with _measured(self._limits.reaps, len(keys)):
            (rows,) = self._bound_table.write([query], self._timeout, may_repeat=False)
        return settle.parse_reaped(self._bound_table, rows)

    def keys_to_reap(self, reaping: Reaping, limit: int, avoided: Sequence[KeyTexts]) -> list[KeyTexts]:
        name = "expired keys" if reaping.worker is None else "keys of the worker"
        values = {"limit": limit, "worker": reaping.worker}
        (keys,) = self._bound_table.execute(
            [self._bound_table.build_choice_query("reap", name, values, avoided=avoided)]
        )
        return [tuple(key) for key in keys]


@contextmanager
def _measured(limit: BatchLimit, size: int) -> Iterator[None]:
    """Lower the limit if a statement for that many rows takes too long; raise it after a fast one."""
    started_at = time.monotonic()
    with _lowered_after_timeout(limit, size):
        yield
    limit.record(size, started_at)


@contextmanager
def _lowered_after_timeout(limit: BatchLimit, size: int) -> Iterator[None]:
    try:
        yield
    except StatementTimedOut:
        if size:
            limit.lower(size // PARTS)
        raise
