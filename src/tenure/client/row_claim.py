"""What a taker holds of a table: one row, for a time."""

import inspect
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, Generic, TypeVar, cast

from tenure.backends.tables.protocol import TableStore
from tenure.client.claim import Claim, Holder
from tenure.client.claims import ClaimsOf
from tenure.client.keeper import Lease
from tenure.client.row import RowFactory
from tenure.core.job import Job
from tenure.core.operations import Settlement
from tenure.errors import ConfigurationError
from tenure.tasks.task import is_async

if TYPE_CHECKING:
    from tenure.client.aio.table import AsyncTableClaim

R = TypeVar("R")

DoneIf = Callable[[Any], bool | Awaitable[bool]]
"""A function of the row that tells whether its work is done."""


@dataclass(frozen=True, slots=True, kw_only=True)
class TableContext(Generic[R]):
    """What every claim of a table shares beside the holder: how a row looks, and how to tell that it is done."""

    store: TableStore
    row_factory: RowFactory[R]
    done_if: DoneIf | None

    def is_done(self, id: str, row: Callable[[], R]) -> bool:
        """Ask whether the work of a row is done."""
        if self.done_if is None:
            self.require_done_check()
            (is_done,) = self.store.already_done([id])
            return is_done
        result = self.done_if(row())
        if inspect.isawaitable(result):
            _close_coroutine(result)
            raise ConfigurationError("done_if is async: use `await claim.aio.already_done()` in an async handler")
        return _require_bool(result)

    async def is_done_async(self, row: R) -> bool:
        """Ask an async `done_if`."""
        result = cast("DoneIf", self.done_if)(row)
        return _require_bool(await result if inspect.isawaitable(result) else result)

    @property
    def is_async(self) -> bool:
        """Whether `done_if` has to be awaited."""
        return self.done_if is not None and is_async(self.done_if)

    @property
    def has_done_check(self) -> bool:
        """Whether somebody said when a row is done."""
        return self.done_if is not None or self.store.spec.done_if is not None

    def require_done_check(self) -> None:
        """Raise if nobody said how to tell."""
        if not self.has_done_check:
            raise ConfigurationError(
                f"table {self.store.spec.display_name!r} has no check for done rows: set done_if= or output= on the "
                "Table"
            )


class ClaimedRow(Generic[R]):
    """A row that somebody holds: made when it is first wanted, and found done or not when that is asked."""

    __slots__ = ("_id", "_payload", "_row", "context", "found_done")

    def __init__(self, job: Job, context: TableContext[R]) -> None:
        self.context = context
        self.found_done = False
        self._id = job.id
        self._payload = job.payload
        self._row: R | None = None

    def get_row(self) -> R:
        """Return the row."""
        if self._row is None:
            self._row = self.context.row_factory.build(self._payload)
        return self._row

    def is_done(self) -> bool:
        """Ask whether its work is done."""
        self.found_done = self.context.is_done(self._id, self.get_row)
        return self.found_done

    async def is_done_async(self) -> bool:
        """Ask an async `done_if`."""
        self.found_done = await self.context.is_done_async(self.get_row())
        return self.found_done


class RowClaim(Claim, Generic[R]):
    """What is the same for a row that was claimed by hand and for one that a worker runs."""

    __slots__ = ()

    claimed_row: ClaimedRow[R]

    def __repr__(self) -> str:
        status = self._outcome or ("lost" if self.is_lost else "held")
        return f"<TableClaim of row {self.id!r} of {self.job.type!r}, fence {self.fence}: {status}>"

    @property
    def row(self) -> R:
        """The row as it was when it was claimed."""
        return self.claimed_row.get_row()

    @property
    def found_done(self) -> bool:
        """Whether the work was done already when that was last asked."""
        return self.claimed_row.found_done

    @property
    def aio(self) -> "AsyncTableClaim[R]":
        """The same claim for async code: every verb awaited."""
        from tenure.client.aio.table import AsyncTableClaim

        return AsyncTableClaim(self, self._holder.facade)

    def already_done(self) -> bool:
        """Ask whether the work of this row is done, as `done_if` says, now.

        If it is, complete the claim without doing it again: that is counted as a duplicate that was prevented.
        """
        return self.claimed_row.is_done()

    def completion(self, result: Any = None) -> Settlement:
        """Return the settlement that completes the row; one that was found done says so."""
        return replace(super().completion(result), found_done=self.found_done)

    def completion_without_result(self) -> Settlement:
        """Return the same for a result that cannot be kept."""
        return replace(super().completion_without_result(), found_done=self.found_done)


class TableClaim(RowClaim[R]):
    """A row, held. Used as a block it is kept alive, and completed on leaving.

    An exception that leaves the block is recorded by the table's policy and goes on; an interruption releases the row.
    After an explicit ending, leaving does nothing more.
    """

    __slots__ = ("claimed_row",)

    def __init__(self, holder: Holder, job: Job, lease: Lease, context: TableContext[R]) -> None:
        super().__init__(holder, job, lease)
        self.claimed_row = ClaimedRow(job, context)


class TableClaims(ClaimsOf[TableClaim[R]]):
    """The claims of one request for rows, in their order. As a block, all are kept alive; the unsettled are released.

    An exception that leaves the block is recorded on the claim that the loop is at, or on the only one, if that is not
    settled: so a row that fails each time is not given back for ever.
    """


def _require_bool(value: object) -> bool:
    if not isinstance(value, bool):
        raise ConfigurationError(f"done_if must return True or False, not {type(value).__name__}")
    return value


def _close_coroutine(value: object) -> None:
    """Have nobody warned of a coroutine that was never awaited."""
    if inspect.iscoroutine(value):
        value.close()
