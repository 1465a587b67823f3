"""Run batches of row operations on PostgreSQL, each in one transaction."""

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace

from tenure.backends.postgres.batch_limit import BatchLimit
from tenure.backends.postgres.errors import is_timeout
from tenure.backends.protocol import SWEEP
from tenure.backends.shared.isolation import StatementTimedOut
from tenure.backends.tables.postgres import claim, settle
from tenure.backends.tables.postgres.bound_table import BoundTable
from tenure.backends.tables.postgres.keys import KeyTexts
from tenure.backends.tables.row_batches import ReapedRows, Reaping, Taken
from tenure.core.operations import BUSY, ClaimRequest, Extension, HoldStatus, Settled, Settlement
from tenure.errors import StoreUnavailable


class PostgresRowBatches:
    def __init__(self, bound_table: BoundTable, batch_limit: BatchLimit) -> None:
        self._bound_table = bound_table
        self._batch_limit = batch_limit
        # Settlements and extensions: a trigger may be slow for each row.
        self._write_limit = BatchLimit(bound_table.database.address.timeout)

    @property
    def settle_limit(self) -> int:
        return self._write_limit.most

    @property
    def reap_limit(self) -> int:
        # A slow `done_if` of many expired rows must not exceed the timeout again and again.
        return min(SWEEP, self._batch_limit.most)

    def id_of(self, key: KeyTexts) -> str:
        return self._bound_table.keys.id_of(key)

    def settle(self, settlements: Sequence[Settlement]) -> list[Settled]:
        return self._write_limit.run_in_parts(settlements, self._settle, BUSY)

    def _settle(self, settlements: Sequence[Settlement]) -> list[Settled]:
        batch = settle.RowSettleBatch(self._bound_table, settlements)
        with self._blamed_on_row(len(settlements)):
            return batch.read_settled(self._bound_table.write(batch.queries) if batch.queries else [])

    def extend(self, extensions: Sequence[Extension]) -> list[HoldStatus]:
        return self._write_limit.run_in_parts(extensions, self._extend, HoldStatus.BUSY)

    def _extend(self, extensions: Sequence[Extension]) -> list[HoldStatus]:
        with self._blamed_on_row(len(extensions)):
            return settle.extend(self._bound_table, extensions)

    def exchange(
        self, settlements: Sequence[Settlement], request: ClaimRequest, avoided: Sequence[KeyTexts]
    ) -> tuple[list[Settled], Taken[KeyTexts]]:
        batch = settle.RowSettleBatch(self._bound_table, settlements)

        def send(limited: ClaimRequest) -> tuple[list[Settled], Taken[KeyTexts], int]:
            reap = settle.reap_query(
                self._bound_table, Reaping(), self.reap_limit, token=request.token, avoided=avoided
            )
            take = claim.take_query(self._bound_table, limited, avoided)
            *settled, reaped, taken = self._bound_table.write([*batch.queries, reap, take])
            unreaped = settle.parse_reaped(self._bound_table, reaped).missed
            rows = claim.read_taken(self._bound_table, limited, taken)
            return batch.read_settled(settled), replace(rows, unreaped=unreaped), max(len(rows.jobs), len(reaped))

        try:
            settled, taken, _ = self._batch_limit.run(request, send, lambda response: response[2])
        except StoreUnavailable as exc:
            if is_timeout(exc) and settlements:
                self._write_limit.halve(len(settlements))
            with self._blamed_on_row(self._batch_limit.most):
                raise
        return settled, taken

    def take(self, request: ClaimRequest, keys: Sequence[KeyTexts], already_taken: int) -> Taken[KeyTexts]:
        query = claim.take_rows_query(self._bound_table, request, keys, already_taken)
        with self._limited(len(keys)):
            (result,) = self._bound_table.write([query])
        return claim.read_taken(self._bound_table, request, result)

    def due_keys(self, limit: int, avoided: Sequence[KeyTexts]) -> list[KeyTexts]:
        limited = min(limit, self._batch_limit.most)
        query = self._bound_table.build_choice_query("claim", "due keys", {"limit": limited}, avoided=avoided)
        (keys,) = self._bound_table.execute([query])
        return [tuple(key) for key in keys]

    def reap(self, reaping: Reaping, limit: int, avoided: Sequence[KeyTexts]) -> ReapedRows[KeyTexts]:
        query = settle.reap_query(self._bound_table, reaping, limit, avoided=avoided)
        with self._limited(limit):
            (rows,) = self._bound_table.write([query], may_repeat=False)
        return settle.parse_reaped(self._bound_table, rows)

    def reap_rows(
        self, reaping: Reaping, keys: Sequence[KeyTexts], rejection: str | None = None
    ) -> ReapedRows[KeyTexts]:
        query = settle.reap_query(self._bound_table, reaping, len(keys), chosen=keys, rejection=rejection)
        with self._limited(len(keys)):
            (rows,) = self._bound_table.write([query], may_repeat=False)
        return settle.parse_reaped(self._bound_table, rows)

    def keys_to_reap(self, reaping: Reaping, limit: int, avoided: Sequence[KeyTexts]) -> list[KeyTexts]:
        name = "expired keys" if reaping.worker is None else "keys of the worker"
        values = {"limit": limit, "worker": reaping.worker}
        (keys,) = self._bound_table.execute(
            [self._bound_table.build_choice_query("reap", name, values, avoided=avoided)]
        )
        return [tuple(key) for key in keys]

    @contextmanager
    def _limited(self, count: int) -> Iterator[None]:
        """Limit the next claims if a statement for that many rows takes too long."""
        try:
            with self._blamed_on_row(count):
                yield
        except StoreUnavailable as exc:
            if is_timeout(exc):
                self._batch_limit.halve(count)
            raise

    @contextmanager
    def _blamed_on_row(self, count: int) -> Iterator[None]:
        """Raise `StatementTimedOut` if a statement for one row takes too long, so that the row delays only itself."""
        try:
            yield
        except StoreUnavailable as exc:
            if count > 1 or not is_timeout(exc):
                raise
            raise StatementTimedOut(str(exc), reason=str(exc), is_invalid=True) from exc.__cause__
