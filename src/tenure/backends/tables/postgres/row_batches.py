"""Run batches of row operations on PostgreSQL, each in one transaction."""

from collections.abc import Sequence
from dataclasses import replace

from tenure.backends.postgres.batch_limit import BatchLimit
from tenure.backends.protocol import SWEEP
from tenure.backends.tables.postgres import claim, settle
from tenure.backends.tables.postgres.bound_table import BoundTable
from tenure.backends.tables.postgres.keys import KeyTexts
from tenure.backends.tables.row_isolation import ReapedRows, Reaping, Taken
from tenure.core.operations import ClaimRequest, Extension, HoldStatus, Settled, Settlement


class PostgresRowBatches:
    def __init__(self, bound_table: BoundTable, batch_limit: BatchLimit) -> None:
        self._bound_table = bound_table
        self._batch_limit = batch_limit

    @property
    def reap_limit(self) -> int:
        # A slow `done_if` of many expired rows must not exceed the timeout again and again.
        return min(SWEEP, self._batch_limit.most)

    def id_of(self, key: KeyTexts) -> str:
        return self._bound_table.keys.id_of(key)

    def settle(self, settlements: Sequence[Settlement]) -> list[Settled]:
        batch = settle.RowSettleBatch(self._bound_table, settlements)
        return batch.read_settled(self._bound_table.write(batch.queries) if batch.queries else [])

    def extend(self, extensions: Sequence[Extension]) -> list[HoldStatus]:
        return settle.extend(self._bound_table, extensions)

    def exchange(
        self, settlements: Sequence[Settlement], request: ClaimRequest, avoided: Sequence[KeyTexts]
    ) -> tuple[list[Settled], Taken[KeyTexts]]:
        batch = settle.RowSettleBatch(self._bound_table, settlements)

        def send(limited: ClaimRequest) -> tuple[list[Settled], Taken[KeyTexts], int]:
            reap = settle.reap_query(self._bound_table, Reaping(token=request.token), self.reap_limit, avoided=avoided)
            take = claim.take_query(self._bound_table, limited, avoided)
            *settled, reaped, taken = self._bound_table.write([*batch.queries, reap, take])
            unreaped = settle.parse_reaped(self._bound_table, reaped).missed
            rows = claim.read_taken(self._bound_table, limited, taken)
            return batch.read_settled(settled), replace(rows, unreaped=unreaped), max(len(rows.jobs), len(reaped))

        settled, taken, _ = self._batch_limit.run(request, send, lambda response: response[2])
        return settled, taken

    def take(self, request: ClaimRequest, keys: Sequence[KeyTexts], already_taken: int) -> Taken[KeyTexts]:
        query = claim.take_rows_query(self._bound_table, request, keys, already_taken)
        (result,) = self._bound_table.write([query])
        return claim.read_taken(self._bound_table, request, result)

    def due_keys(self, limit: int, avoided: Sequence[KeyTexts]) -> list[KeyTexts]:
        limited = min(limit, self._batch_limit.most)
        query = self._bound_table.build_choice_query("claim", "due keys", {"limit": limited}, avoided=avoided)
        (keys,) = self._bound_table.execute([query])
        return [tuple(key) for key in keys]

    def reap(self, reaping: Reaping, limit: int, avoided: Sequence[KeyTexts]) -> ReapedRows[KeyTexts]:
        query = settle.reap_query(self._bound_table, reaping, limit, avoided=avoided)
        (rows,) = self._bound_table.write([query], may_repeat=False)
        return settle.parse_reaped(self._bound_table, rows)

    def reap_rows(
        self, reaping: Reaping, keys: Sequence[KeyTexts], rejection: str | None = None
    ) -> ReapedRows[KeyTexts]:
        query = settle.reap_query(self._bound_table, reaping, len(keys), chosen=keys, rejection=rejection)
        (rows,) = self._bound_table.write([query], may_repeat=False)
        return settle.parse_reaped(self._bound_table, rows)

    def keys_to_reap(self, reaping: Reaping, limit: int, avoided: Sequence[KeyTexts]) -> list[KeyTexts]:
        name = "expired keys" if reaping.worker is None else "keys of the worker"
        values = {"limit": limit, "worker": reaping.worker}
        (keys,) = self._bound_table.execute(
            [self._bound_table.build_choice_query("reap", name, values, avoided=avoided)]
        )
        return [tuple(key) for key in keys]
