"""A table for async code: the same verbs, awaited."""

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
    """The awaited twin of a `Table`: the same database, and the same keeper. Any event loops and threads may share it.

    A call that is cancelled comes to its end before the cancel is raised. A claim that is cancelled ends at once, and
    what it takes is given back.
    """

    @overload
    def __init__(self: "AsyncTable[Row]", store: TableLocation, name: str, **options: Unpack[TableOptions]) -> None: ...
    @overload
    def __init__(self, store: TableLocation, name: str, *, row: type[R], **options: Unpack[TableOptions]) -> None: ...

    def __init__(self, store: Any, name: str, **options: Any) -> None:
        self._bind(Table(store, name, **options))

    def _bind(self, source: Table[R]) -> None:
        super()._bind(source)
        # To register a function is the same for both.
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
        """Run the handler for each due row on this event loop until SIGTERM or SIGINT; the options are of `Table.work`.

        A cancel stops it as a signal does, and is raised when it has ended.
        """
        reject_lease(options)
        return await work(self.sync, **options)

    def worker(self, **options: Unpack[WorkerOptions]) -> "AsyncWorker":
        """Return a worker with the options of `Table.work`, to be used as an async block on this event loop."""
        reject_lease(options)
        return worker(self.sync, **options)

    @reject_unknown_options
    async def claim(
        self, *, limit: int = 1, lease: Seconds | None = None, wait: Seconds = 0.0, worker: str | None = None
    ) -> "AsyncTableClaims[R]":
        """Take up to `limit` due rows, waiting up to `wait` seconds for the first; by default for the table's lease.

        Use the claims as a block to have them kept alive while you work; those you do not settle are released.
        """
        request = request_of(None, None, limit, self.sync._lease if lease is None else lease, worker)
        return AsyncTableClaims(self, await self._claim_with_wait(request, wait))

    @reject_unknown_options
    async def attach(self, id: RowKey, *, fence: int, token: str, lease: Seconds | None = None) -> "AsyncTableClaim[R]":
        """Return the handle of a claim that was made elsewhere, as `Table.claimed` does."""
        attach = partial(self.sync.attach, id, fence=fence, token=token, lease=lease)
        return (await self.threads.run(attach)).aio

    def find(self, **filters: Unpack[RowFilters]) -> AsyncIterator[Job]:
        """Yield the rows that match, read page by page; without a condition, all."""
        return self._iterate_pages(self.sync._pages(build_row_query("find", filters)))


class AsyncTableClaim(AsyncClaim, Generic[R]):
    """The awaited twin of a `TableClaim`. Used as an async block it is kept alive, and completed on leaving."""

    __slots__ = ()

    sync: RowClaim[R]

    def __repr__(self) -> str:
        return repr(self.sync).replace("TableClaim", "AsyncTableClaim", 1)

    @property
    def row(self) -> R:
        """The row as it was when it was claimed."""
        return self.sync.row

    @property
    def found_done(self) -> bool:
        """Whether the work was done already when that was last asked."""
        return self.sync.found_done

    async def already_done(self) -> bool:
        """Ask whether the work of this row is done, as `done_if` says, now; see `TableClaim.already_done`."""
        held = self.sync.claimed_row
        if held.context.is_async:
            return await held.is_done_async()
        return await self.threads.run(self.sync.already_done)


class AsyncTableClaims(AsyncClaimsOf[AsyncTableClaim[R]], Generic[R]):
    """The awaited twin of `TableClaims`. As an async block, all are kept alive; the unsettled are released."""

    sync: TableClaims[R]


def create_table_facade(table: Table[R]) -> AsyncTable[R]:
    """Return a twin for this table, which has none yet."""
    facade = cast("AsyncTable[R]", AsyncTable.__new__(AsyncTable))
    facade._bind(table)
    return facade
