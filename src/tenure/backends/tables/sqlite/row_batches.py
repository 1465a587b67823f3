"""Run batches of row operations on SQLite, each in one transaction."""

from collections.abc import Sequence

from tenure.backends.protocol import SWEEP
from tenure.backends.sqlite.write_transaction import WriteTransaction
from tenure.backends.tables.row_batches import ReapedRows, Reaping, Taken
from tenure.backends.tables.sqlite import claim, settle
from tenure.backends.tables.sqlite.bound_table import BoundTable
from tenure.backends.tables.sqlite.keys import KeyValues, id_of
from tenure.core.operations import LARGEST_BATCH, ClaimRequest, Extension, HoldStatus, Settled, Settlement


class SQLiteRowBatches:
    claim_limit = settle_limit = extend_limit = LARGEST_BATCH
    reap_limit = SWEEP

    def __init__(self, bound_table: BoundTable) -> None:
        self._bound_table = bound_table

    @property
    def patient(self) -> "SQLiteRowBatches":
        return self

    def id_of(self, key: KeyValues) -> str:
        return id_of(key)

    def settle(self, settlements: Sequence[Settlement]) -> list[Settled]:
        with self._bound_table.writing() as (write, layout):
            return settle.settle(write, layout, settlements)

    def extend(self, extensions: Sequence[Extension]) -> list[HoldStatus]:
        with self._bound_table.writing() as (write, layout):
            return claim.extend(write, layout, extensions)

    def exchange(
        self, settlements: Sequence[Settlement], request: ClaimRequest, avoided: Sequence[KeyValues]
    ) -> tuple[list[Settled], Taken[KeyValues]]:
        with self._bound_table.writing() as (write, layout):
            settled = settle.settle(write, layout, settlements)
            return settled, claim.claim(write, layout, request, avoided)

    def take(self, request: ClaimRequest, keys: Sequence[KeyValues], already_taken: int) -> Taken[KeyValues]:
        with self._bound_table.writing() as (write, layout):
            return claim.take(write, layout, request, keys, already_taken)

    def due_keys(self, limit: int, avoided: Sequence[KeyValues]) -> list[KeyValues]:
        with self._bound_table.reading() as (db, now, layout):
            return claim.due_keys(WriteTransaction(db, now), layout, limit, avoided)

    def reap(self, reaping: Reaping, limit: int, avoided: Sequence[KeyValues]) -> ReapedRows[KeyValues]:
        with self._bound_table.writing() as (write, layout):
            return ReapedRows(reaped=settle.reap(write, layout, reaping, limit, avoided))

    def reap_rows(
        self, reaping: Reaping, keys: Sequence[KeyValues], rejection: str | None = None
    ) -> ReapedRows[KeyValues]:
        with self._bound_table.writing() as (write, layout):
            return ReapedRows(reaped=settle.reap_rows(write, layout, reaping, keys, rejection))

    def keys_to_reap(self, reaping: Reaping, limit: int, avoided: Sequence[KeyValues]) -> list[KeyValues]:
        with self._bound_table.reading() as (db, now, layout):
            return settle.keys_to_reap(WriteTransaction(db, now), layout, reaping, limit, avoided)
