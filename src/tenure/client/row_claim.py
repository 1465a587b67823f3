"""The claim of a row of a table."""

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
"""A function that takes a row and returns whether its work is done."""


@dataclass(frozen=True, slots=True, kw_only=True)
class TableContext(Generic[R]):
    """What all claims of a table share: the store, how to build a row, and how to check whether it is done."""

    store: TableStore
    row_factory: RowFactory[R]
    done_if: DoneIf | None

    def is_done(self, id: str, row: Callable[[], R]) -> bool:
        """Check whether the work of a row is done, by the function or the SQL condition."""
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
        """Check with an async `done_if`."""
        result = cast("DoneIf", self.done_if)(row)
        return _require_bool(await result if inspect.isawaitable(result) else result)

    @property
    def is_async(self) -> bool:
        """Whether `done_if` is async."""
        return self.done_if is not None and is_async(self.done_if)

    @property
    def has_done_check(self) -> bool:
        """Whether the table has a `done_if` or an `output`."""
        return self.done_if is not None or self.store.spec.done_if is not None

    def require_done_check(self) -> None:
        """Raise unless the table has a `done_if` or an `output`."""
        if not self.has_done_check:
            raise ConfigurationError(
                f"table {self.store.spec.display_name!r} has no check for done rows: set done_if= or output= on the "
                "Table"
            )


class ClaimedRow(Generic[R]):
    """A claimed row, built on first use, and the result of its last done check."""

    __slots__ = ("_id", "_payload", "_row", "context", "found_done")

    def __init__(self, job: Job, context: TableContext[R]) -> None:
        self.context = context
        self.found_done = False
        self._id = job.id
        self._payload = job.payload
        self._row: R | None = None

    def get_row(self) -> R:
        """Return the row; build it on the first call."""
        if self._row is None:
            self._row = self.context.row_factory.build(self._payload)
        return self._row

    def is_done(self) -> bool:
        """Check whether the work of the row is done."""
        self.found_done = self.context.is_done(self._id, self.get_row)
        return self.found_done

    async def is_done_async(self) -> bool:
        """Check with an async `done_if`."""
        self.found_done = await self.context.is_done_async(self.get_row())
        return self.found_done


class RowClaim(Claim, Generic[R]):
    """The common part of a row claimed by hand and a row run by a worker."""

    __slots__ = ()

    claimed_row: ClaimedRow[R]

    def __repr__(self) -> str:
        status = self._outcome or ("lost" if self.is_lost else "held")
        return f"<TableClaim of row {self.id!r} of {self.job.type!r}, fence {self.fence}: {status}>"

    @property
    def row(self) -> R:
        """The row as of the claim."""
        return self.claimed_row.get_row()

    @property
    def found_done(self) -> bool:
        """The result of the last `already_done`; False before the first."""
        return self.claimed_row.found_done

    @property
    def aio(self) -> "AsyncTableClaim[R]":
        """The async facade: the same methods as coroutines."""
        from tenure.client.aio.table import AsyncTableClaim

        return AsyncTableClaim(self, self._holder.facade)

    def already_done(self) -> bool:
        """Check now whether the work of this row is done, by `done_if` or `output`.

        If so, complete the claim without repeating the work; the row counts as a prevented duplicate. Raises
        `ConfigurationError` if the table has neither.
        """
        return self.claimed_row.is_done()

    def completion(self, result: Any = None) -> Settlement:
        """Return the settlement that completes the row, marked if the row was found done."""
        return replace(super().completion(result), found_done=self.found_done)

    def completion_without_result(self) -> Settlement:
        """Return the settlement that completes the row and marks its result as dropped."""
        return replace(super().completion_without_result(), found_done=self.found_done)


class TableClaim(RowClaim[R]):
    """A row held under a lease. As a context manager it extends the lease, and completes the row on exit.

    If an exception leaves the block, the attempt fails (retry or `failed`, by the table's policy) and the exception
    propagates. An interruption such as `KeyboardInterrupt` or `CancelledError` releases the row. After an explicit
    settlement, the exit does nothing more.
    """

    __slots__ = ("claimed_row",)

    def __init__(self, holder: Holder, job: Job, lease: Lease, context: TableContext[R]) -> None:
        super().__init__(holder, job, lease)
        self.claimed_row = ClaimedRow(job, context)


class TableClaims(ClaimsOf[TableClaim[R]]):
    """The claimed rows of one request, in claim order. As a context manager it extends their leases.

    On exit, unsettled claims are released. An exception that leaves the block is recorded on the claim that the loop is
    at, or on the only claim, unless it is settled; otherwise a row that always fails would be released forever.
    """


def _require_bool(value: object) -> bool:
    if not isinstance(value, bool):
        raise ConfigurationError(f"done_if must return True or False, not {type(value).__name__}")
    return value


def _close_coroutine(value: object) -> None:
    """Close the coroutine; otherwise Python warns that the coroutine was never awaited."""
    if inspect.iscoroutine(value):
        value.close()
