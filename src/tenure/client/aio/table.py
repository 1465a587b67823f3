"""Async facades of `Table` and its claims."""

from collections.abc import AsyncIterator
from functools import partial
from typing import TYPE_CHECKING, Any, Generic, TypeVar, Unpack, cast, overload

from tenure.client.aio.awaited import async_method
from tenure.client.aio.claims import AsyncClaim, AsyncClaimsOf
from tenure.client.aio.source import AsyncSource
from tenure.client.aio.work import work, worker
from tenure.client.row import Row
from tenure.client.row_claim import RowClaim, TableClaims
from tenure.client.source import request_of
from tenure.client.table import RowKey, Table, TableLocation, TableOptions, reject_lease
from tenure.client.worker_options import WorkerOptions
from tenure.core.checks import Seconds, reject_unknown_options
from tenure.core.filters import RowFilters, build_row_query
from tenure.core.job import Job

if TYPE_CHECKING:
    from tenure.worker import AsyncWorker, Summary

R = TypeVar("R")


class AsyncTable(AsyncSource[Table[R]], Generic[R]):
    """The async facade of a `Table`, with the same database and the same keeper. Event loops and threads may share it.

    A cancelled call finishes before `CancelledError` is raised. A cancelled `claim` returns at once, and rows that it
    has claimed are released.
    """

    @overload
    def __init__(self: "AsyncTable[Row]", store: TableLocation, name: str, **options: Unpack[TableOptions]) -> None: ...
    @overload
    def __init__(self, store: TableLocation, name: str, *, row: type[R], **options: Unpack[TableOptions]) -> None: ...

    def __init__(self, store: Any, name: str, **options: Any) -> None:
        self._bind(Table(store, name, **options))

    def _bind(self, source: Table[R]) -> None:
        super()._bind(source)
        # Registering a function needs no await.
        self.handler = source.handler

    reap = async_method(Table[Any].reap)
    get = async_method(Table[Any].get)
    stats = async_method(Table[Any].stats)
    explain = async_method(Table[Any].explain)
    retry = async_method(Table[Any].retry, reads_iterators=True)
    cancel = async_method(Table[Any].cancel, reads_iterators=True)
    migrate = async_method(Table[Any].migrate)
    outstanding = async_method(Table[Any].outstanding)
    sql = async_method(Table[Any].sql)
    check = async_method(Table[Any].check)

    @property
    def name(self) -> str:
        """The name of the table."""
        return self.sync.name

    async def work(self, **options: Unpack[WorkerOptions]) -> "Summary":
        """Run the handler for each due row on this event loop until SIGTERM or SIGINT.

        The options are those of `Table.work`. A cancel stops the worker as a signal does; `CancelledError` is raised
        when the worker has ended.
        """
        reject_lease(options)
        return await work(self.sync, **options)

    def worker(self, **options: Unpack[WorkerOptions]) -> "AsyncWorker":
        """Return a worker with the options of `Table.work`. As an async context manager it runs on this event loop."""
        reject_lease(options)
        return worker(self.sync, **options)

    @reject_unknown_options
    async def claim(
        self, *, limit: int = 1, lease: Seconds | None = None, wait: Seconds = 0.0, worker: str | None = None
    ) -> "AsyncTableClaims[R]":
        """Claim up to `limit` due rows (at most 1,000), waiting up to `wait` seconds for the first.

        A claim holds its row for `lease` seconds, by default the lease of the table. Use the claims as an async context
        manager: the leases are extended inside the block, and unsettled claims are released on exit.
        """
        request = request_of(None, None, limit, self.sync._lease if lease is None else lease, worker)
        return AsyncTableClaims(self, await self._claim_with_wait(request, wait))

    @reject_unknown_options
    async def attach(self, id: RowKey, *, fence: int, token: str, lease: Seconds | None = None) -> "AsyncTableClaim[R]":
        """Re-attach to a claim made elsewhere, as `Table.attach` does."""
        attach = partial(self.sync.attach, id, fence=fence, token=token, lease=lease)
        return (await self.threads.run(attach)).aio

    def find(self, **filters: Unpack[RowFilters]) -> AsyncIterator[Job]:
        """Yield the matching rows as jobs, read page by page, with the filters of `Table.find`."""
        return self._iterate_pages(self.sync._pages(build_row_query("find", filters)))


class AsyncTableClaim(AsyncClaim, Generic[R]):
    """The async facade of a `TableClaim`. As an async context manager it extends the lease.

    On exit, the row is completed.
    """

    __slots__ = ()

    sync: RowClaim[R]

    def __repr__(self) -> str:
        return repr(self.sync).replace("TableClaim", "AsyncTableClaim", 1)

    @property
    def row(self) -> R:
        """The row as of the claim."""
        return self.sync.row

    @property
    def found_done(self) -> bool:
        """The result of the last `already_done`; False before the first."""
        return self.sync.found_done

    async def already_done(self) -> bool:
        """Check now whether the work of this row is done; see `TableClaim.already_done`. `done_if` may be async."""
        held = self.sync.claimed_row
        if held.context.is_async:
            return await held.is_done_async()
        return await self.threads.run(self.sync.already_done)


class AsyncTableClaims(AsyncClaimsOf[AsyncTableClaim[R]], Generic[R]):
    """The async facade of `TableClaims`. As an async context manager it extends their leases.

    On exit, unsettled claims are released.
    """

    sync: TableClaims[R]


def create_table_facade(table: Table[R]) -> AsyncTable[R]:
    """Return a new async facade of a table that has none yet."""
    facade = cast("AsyncTable[R]", AsyncTable.__new__(AsyncTable))
    facade._bind(table)
    return facade
