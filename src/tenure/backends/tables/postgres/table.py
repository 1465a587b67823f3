"""The operations on a user's table on PostgreSQL, each in one transaction."""

from asyncio import AbstractEventLoop
from collections.abc import Collection, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import replace
from functools import partial
from typing import Any, ClassVar

from tenure.backends.postgres.address import address_of
from tenure.backends.postgres.database import Database
from tenure.backends.protocol import SWEEP, StoreClock
from tenure.backends.tables.postgres import doctor, migrate, read
from tenure.backends.tables.postgres import move as move_operations
from tenure.backends.tables.postgres.bound_table import BoundTable
from tenure.backends.tables.postgres.caller_transaction import PostgresTableTransactionOperations, join_transaction
from tenure.backends.tables.postgres.row_batches import BATCH_FRACTION, PostgresRowBatches, RowLimits
from tenure.backends.tables.postgres.wait import RowWaiter
from tenure.backends.tables.protocol import Finding
from tenure.backends.tables.row_batches import Reaping
from tenure.backends.tables.row_isolation import RowIsolation
from tenure.core.job import State
from tenure.core.operations import (
    Claimed,
    ClaimOutlook,
    ClaimRequest,
    Extension,
    HoldStatus,
    Move,
    Moved,
    Page,
    Query,
    Reaped,
    Settled,
    Settlement,
    Stats,
)
from tenure.core.table.spec import TableSpec
from tenure.core.transitions import move_note


class PostgresTable:
    """A `TableStore`. Shares the connections of a store, or owns its own and closes them."""

    is_exclusive: ClassVar[bool] = False

    def __init__(self, database: Database, spec: TableSpec, *, is_owner: bool = False) -> None:
        self.spec = spec
        self._database = database
        self._is_owner = is_owner
        self._bound_table = BoundTable(database, spec)
        timeout = BATCH_FRACTION * database.address.timeout
        self._limits = RowLimits(timeout)
        self._rows = RowIsolation(PostgresRowBatches(self._bound_table, self._limits, timeout), spec.display_name)
        self._waiter = RowWaiter(self._bound_table, self._rows.avoided_keys)

    def claim(self, request: ClaimRequest) -> Claimed:
        _, claimed = self.exchange([], request)
        return claimed

    def extend(self, extensions: Sequence[Extension]) -> list[HoldStatus]:
        return self._rows.extend(extensions)

    def settle(self, settlements: Sequence[Settlement]) -> list[Settled]:
        settled = self._rows.settle(settlements)
        self._wake_for(settlements)
        return settled

    def exchange(self, settlements: Sequence[Settlement], request: ClaimRequest) -> tuple[list[Settled], Claimed]:
        if not self.spec.is_included(request.queues, request.types):
            settled = self.settle(settlements)
            self._rows.reap(Reaping(), SWEEP)
            return settled, Claimed(jobs=[])
        settled, claimed = self._rows.exchange(settlements, request)
        self._waiter.record_claim(request, claimed)
        self._wake_for(settlements)
        return settled, claimed

    def reap(
        self, limit: int = SWEEP, worker: str | None = None, started: Collection[str] | None = None
    ) -> list[Reaped]:
        reaped = self._rows.reap(Reaping(worker=worker, started=started), limit)
        if any(each.state is State.QUEUED for each in reaped):
            self._waiter.wake()
        return reaped

    def move(self, ids: Sequence[str], move: Move, reason: str | None = None) -> list[Moved]:
        moved = move_operations.move(self._bound_table, ids, move, move_note(move, reason))
        if any(each.moved and each.state is State.QUEUED for each in moved):
            self._waiter.wake()
        return moved

    def find(self, query: Query) -> Page:
        if query.ids is not None:
            return read.find(self._bound_table, query)
        return self._limits.claims.run(query, partial(read.find, self._bound_table), lambda page: len(page.jobs))

    def stats(self) -> Stats:
        return read.stats(self._bound_table)

    def explain(self, id: str, queues: Sequence[str] | None, types: Sequence[str] | None) -> ClaimOutlook | None:
        return read.explain(self._bound_table, id, queues, types)

    def already_done(self, ids: Sequence[str]) -> list[bool]:
        return read.already_done(self._bound_table, ids)

    def wait(self, queues: Sequence[str] | None, types: Sequence[str] | None, timeout: float) -> None:
        self._waiter.wait(queues, types, timeout)

    def migrate(self, *, adopt_running_after: float | None = None, functions: bool = False) -> list[str]:
        done = migrate.migrate(self._database, self.spec, adopt_running_after=adopt_running_after, functions=functions)
        self._bound_table.invalidate()
        return done

    def outstanding(self, *, adopt_running_after: float | None = None, functions: bool = False) -> list[str]:
        return migrate.outstanding(
            self._database, self.spec, adopt_running_after=adopt_running_after, functions=functions
        )

    def sql(self) -> Mapping[str, str]:
        return migrate.printable_sql(self._database, self.spec)

    def check(self) -> list[Finding]:
        return doctor.check(self._database, self.spec)

    @contextmanager
    def transaction(self, loop: AbstractEventLoop | None = None) -> Iterator[Any]:
        """Yield a psycopg connection for the caller's statements; commit on exit, roll back on an exception."""
        with self._database.transactions.begin(loop) as connection:
            yield connection

    @contextmanager
    def join(self, connection: object) -> Iterator[PostgresTableTransactionOperations]:
        """Yield the operations that run in the transaction of the caller's connection."""
        with join_transaction(self._bound_table, connection) as joined:
            yield joined

    def close(self) -> None:
        self._waiter.close()
        if self._is_owner:
            self._database.close()

    def _wake_for(self, settlements: Sequence[Settlement]) -> None:
        """Wake a waiting thread if a settlement requeued a row."""
        if any(each.state is State.QUEUED for each in settlements):
            self._waiter.wake()


def open_table(url: str, shown: str, spec: TableSpec, *, clock: StoreClock | None = None) -> PostgresTable:
    """Open a table in the database of a URL. The database needs no tenure schema, and none is created."""
    address = replace(address_of(url, shown), is_bare=True)
    return PostgresTable(Database(address, clock=clock), spec, is_owner=True)
