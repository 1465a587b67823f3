"""A table for async code: the same verbs, awaited."""

from collections.abc import AsyncIterator
from functools import partial
from typing import TYPE_CHECKING, Any, Generic, TypeVar, Unpack, cast, overload

from tenure.client.aio.awaited import awaited
from tenure.client.aio.claims import AsyncClaim, AsyncClaimsOf
from tenure.client.aio.source import AsyncSource
from tenure.client.aio.work import work, worker
from tenure.client.row import Row
from tenure.client.row_claim import RowClaim, TableClaims
from tenure.client.source import request_of
from tenure.client.table import Key, Place, Table, TableOptions, refuse_lease
from tenure.client.worker_options import WorkerOptions
from tenure.core.checks import Seconds, known_options
from tenure.core.filters import RowFilters, row_query_of
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
    def __init__(self: "AsyncTable[Row]", store: Place, name: str, **options: Unpack[TableOptions]) -> None: ...
    @overload
    def __init__(self, store: Place, name: str, *, row: type[R], **options: Unpack[TableOptions]) -> None: ...

    def __init__(self, store: Any, name: str, **options: Any) -> None:
        self._join(Table(store, name, **options))

    def _join(self, source: Table[R]) -> None:
        super()._join(source)
        # To register a function is the same for both.
        self.handler = source.handler

    reap = awaited(Table[Any].reap)
    get = awaited(Table[Any].get)
    stats = awaited(Table[Any].stats)
    explain = awaited(Table[Any].explain)
    retry = awaited(Table[Any].retry, reads=True)
    cancel = awaited(Table[Any].cancel, reads=True)
    migrate = awaited(Table[Any].migrate)
    outstanding = awaited(Table[Any].outstanding)
    texts = awaited(Table[Any].texts)
    examine = awaited(Table[Any].examine)

    @property
    def name(self) -> str:
        """The name of the table."""
        return self.sync.name

    async def work(self, **options: Unpack[WorkerOptions]) -> "Summary":
        """Run the handler for each due row on this event loop until SIGTERM or SIGINT; the options are of `Table.work`.

        A cancel stops it as a signal does, and is raised when it has ended.
        """
        refuse_lease(options)
        return await work(self.sync, **options)

    def worker(self, **options: Unpack[WorkerOptions]) -> "AsyncWorker":
        """Return a worker with the options of `Table.work`, to be used as an async block on this event loop."""
        refuse_lease(options)
        return worker(self.sync, **options)

    @known_options
    async def claim(
        self, *, limit: int = 1, lease: Seconds | None = None, wait: Seconds = 0.0, worker: str | None = None
    ) -> "AsyncTableClaims[R]":
        """Take up to `limit` due rows, waiting up to `wait` seconds for the first; by default for the table's lease.

        Use the claims as a block to have them kept alive while you work; those you do not settle are released.
        """
        request = request_of(None, None, limit, self.sync._lease if lease is None else lease, worker)
        return AsyncTableClaims(self, await self._take(request, wait))

    @known_options
    async def claimed(self, id: Key, *, fence: int, token: str, lease: Seconds | None = None) -> "AsyncTableClaim[R]":
        """Return the handle of a claim that was made elsewhere, as `Table.claimed` does."""
        find = partial(self.sync.claimed, id, fence=fence, token=token, lease=lease)
        return (await self.threads.run(find)).aio

    def find(self, **filters: Unpack[RowFilters]) -> AsyncIterator[Job]:
        """Yield the rows that match, read page by page; without a condition, all."""
        return self._found(self.sync._pages(row_query_of("find", filters)))


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
        held = self.sync.held
        if held.rows.is_async:
            return await held.is_done_awaited()
        return await self.threads.run(self.sync.already_done)


class AsyncTableClaims(AsyncClaimsOf[AsyncTableClaim[R]], Generic[R]):
    """The awaited twin of `TableClaims`. As an async block, all are kept alive; the unsettled are released."""

    sync: TableClaims[R]


def table_twin_of(table: Table[R]) -> AsyncTable[R]:
    """Return a twin for this table, which has none yet."""
    twin = cast("AsyncTable[R]", AsyncTable.__new__(AsyncTable))
    twin._join(table)
    return twin
