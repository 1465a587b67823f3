"""`Table`: an existing table whose rows are the jobs."""

import inspect
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, Generic, TypeAlias, TypedDict, TypeVar, Unpack, overload
from uuid import UUID

from tenure.backends.tables.open import table_at, table_in
from tenure.backends.tables.protocol import Finding, TableStore
from tenure.backends.urls import display_name, url_of
from tenure.client.claim import Holder
from tenure.client.jobs import Jobs
from tenure.client.keeper import Lease
from tenure.client.row import Row, row_factory_for
from tenure.client.row_claim import DoneIf, TableClaim, TableClaims, TableContext
from tenure.client.settling import settle
from tenure.client.source import Source, batches_of, request_of
from tenure.client.worker_options import WorkerOptions
from tenure.core import checks
from tenure.core.backoff import Backoff
from tenure.core.checks import Seconds, reject_unknown_options
from tenure.core.explanation import Explanation, explain_row
from tenure.core.filters import RowFilters, build_row_query, has_condition
from tenure.core.job import LIVE, Job, State, check_timeout
from tenure.core.operations import Move, Moved, Reaped, Stats, check_lease
from tenure.core.table.options import build_table_spec
from tenure.core.table.spec import Columns, StateWords, TableSpec, row_id
from tenure.core.transitions import build_release
from tenure.errors import ConfigurationError, DuplicateTask
from tenure.tasks.registry import ExceptionTypes, build_policy, function_name
from tenure.tasks.task import Policy, is_async, is_same_function

if TYPE_CHECKING:
    from tenure.client.aio import AsyncJobs
    from tenure.client.aio.table import AsyncTable
    from tenure.worker import Summary, Worker

F = TypeVar("F", bound=Callable[..., Any])
R = TypeVar("R")

RowKey = str | int | UUID | tuple[str | int | UUID, ...]
"""The key of a row: its value, a tuple for a key of several columns, or the id of the row as text."""
RowKeys = RowKey | Iterable[RowKey]

TableLocation: TypeAlias = "str | Callable[[], str] | Jobs | AsyncJobs"
"""The database of a table: a URL, a function that returns a URL, or a `Jobs` in the same database."""


class TableOptions(TypedDict, total=False):
    """The options of a table: see `Table`."""

    id: str | Sequence[str]
    schema: str | None
    columns: Columns | None
    select: str | Sequence[str] | None
    states: StateWords | None
    order_by: str | Sequence[str] | None
    where: str | None
    params: Mapping[str, Any] | None
    done_if: str | DoneIf | None
    output: str | Sequence[str] | None
    on_retry: Mapping[str, Any] | None
    lease: Seconds
    max_attempts: int | None
    max_crashes: int
    backoff: Backoff | None
    timeout: Seconds | None
    sidecar: bool | str


@dataclass(frozen=True, slots=True)
class RowTask:
    """The function that a worker calls with a row, and its retry policy."""

    function: Callable[..., Any]
    policy: Policy


class Table(Source[TableStore, TableClaim[R]], Generic[R]):
    """An existing table whose rows are the jobs. The table is read on first use. Threads may share a `Table`.

    - `store` is the URL of the database, a function that returns a URL, or a `Jobs` in the same database, whose
      connections the table shares.
    - `name` is the table, optionally with its schema: `"shop.orders"`.
    - `id` is the key column, or several.
    - `columns` maps roles to columns; `states` maps states to the values of the state column.
    - `select` are the columns that a claim reads beside the key, by default all. Use it if rows have large columns.
    - `where` is the SQL condition of the rows to process; `params` are the values of its `:name` parameters.
    - `order_by` is the order in which rows are claimed.
    - `done_if` is a SQL condition, or a function of the row, that is true when the work of a row is done. A worker
      checks it after each claim and skips the handler if it is true. A SQL condition is also checked when a lease
      expired: the row is then completed instead of retried.
    - `output` is the column of another table, such as `"invoices.order_id"`, that holds the key of a row once its work
      is done. It implies a `done_if`, and `migrate` adds a unique index.
    - `on_retry` are column values that an operator's retry sets.
    - `lease`, `max_attempts`, `max_crashes`, `backoff` and `timeout` are as for `Jobs`; durations are in seconds.
    - `sidecar` leaves the table unchanged and keeps the claims in a sidecar table next to it.
    - `row` is a dataclass to build from each row, by default `tenure.Row`.
    """

    kind = "Table"

    @overload
    def __init__(self: "Table[Row]", store: TableLocation, name: str, **options: Unpack[TableOptions]) -> None: ...
    @overload
    def __init__(self, store: TableLocation, name: str, *, row: type[R], **options: Unpack[TableOptions]) -> None: ...

    @reject_unknown_options
    def __init__(
        self,
        store: Any,
        name: str,
        *,
        id: str | Sequence[str] = "id",
        schema: str | None = None,
        columns: Columns | None = None,
        select: str | Sequence[str] | None = None,
        states: StateWords | None = None,
        order_by: str | Sequence[str] | None = None,
        where: str | None = None,
        params: Mapping[str, Any] | None = None,
        done_if: str | DoneIf | None = None,
        output: str | Sequence[str] | None = None,
        on_retry: Mapping[str, Any] | None = None,
        lease: Seconds = 60.0,
        max_attempts: int | None = 5,
        max_crashes: int = 3,
        backoff: Backoff | None = None,
        timeout: Seconds | None = None,
        sidecar: bool | str = False,
        row: type[R] | None = None,
    ) -> None:
        super().__init__(backoff)
        self._location: str | Callable[[], str] | Jobs = _location_of(store)
        self._done_if = _done_function(done_if)
        self._lease = check_lease(lease)
        spec = build_table_spec(
            name,
            id=id,
            schema=schema,
            columns=columns,
            select=select,
            states=states,
            order_by=order_by,
            where=where,
            params=params,
            done_if=done_if if isinstance(done_if, str) else None,
            output=output,
            on_retry=on_retry,
            max_attempts=max_attempts,
            max_crashes=max_crashes,
            sidecar=sidecar,
        )
        self.spec: TableSpec = replace(spec, lease=self._lease, backoff=self._backoff)
        self._row_factory = row_factory_for(row, self.spec.display_name)
        self._timeout = check_timeout(timeout)
        self._handler: RowTask | None = None
        self._facade: AsyncTable[R] | None = None

    def __reduce__(self) -> tuple[object, ...]:
        raise TypeError(f"cannot pickle {self!r}: import the Table in the other process")

    def __repr__(self) -> str:
        where = repr(self._location) if isinstance(self._location, Jobs) else display_name(self._location)
        return f"<Table {self.spec.display_name!r} in {where}>"

    @property
    def name(self) -> str:
        """The name of the table. Rows shown as jobs have it as their queue and type."""
        return self.spec.label

    @property
    def aio(self) -> "AsyncTable[R]":
        """The async facade: the same methods as coroutines, over the same store."""
        if (facade := self._facade) is not None:
            return facade
        from tenure.client.aio.table import create_table_facade

        with self._lock:
            return self._facade or create_table_facade(self)

    @overload
    def handler(self, function: F, /) -> F: ...
    @overload
    def handler(
        self, *, timeout: Seconds | None = None, backoff: Backoff | None = None, give_up_on: ExceptionTypes = ()
    ) -> Callable[[F], F]: ...

    @reject_unknown_options
    def handler(
        self,
        function: Any = None,
        *,
        timeout: Seconds | None = None,
        backoff: Backoff | None = None,
        give_up_on: ExceptionTypes = (),
    ) -> Any:
        """Register the function, sync or async, that workers call with each row. Returns the function unchanged.

        `timeout` is the time limit of a run in seconds; `timeout` and `backoff` default to those of the table. A row
        whose handler raises an exception of `give_up_on` fails without another attempt.
        """
        policy = build_policy(self._timeout if timeout is None else timeout, backoff, give_up_on)

        def register(function: F) -> F:
            if not callable(function):
                raise ConfigurationError(
                    f"a handler must be a function that takes a row, not {checks.short_repr(function)}"
                )
            is_async(function)
            _require_row_parameter(function)
            known = self._handler
            if known is not None and not is_same_function(function, known.function):
                raise DuplicateTask(
                    f"cannot register {function_name(function)}: table {self.spec.display_name!r} already has the "
                    f"handler {function_name(known.function)}; create another Table with its own where="
                )
            self._handler = RowTask(function, policy)
            return function

        return register if function is None else register(function)

    def work(self, **options: Unpack[WorkerOptions]) -> "Summary":
        """Run the handler for each due row until a signal, or with `drain=True` until no row is due.

        The options are those of `Jobs.work`, except `queues`, `types` and `lease`.
        """
        from tenure.worker import work

        reject_lease(options)
        return work(self, **options)

    def worker(self, **options: Unpack[WorkerOptions]) -> "Worker":
        """Return a worker with the options of `work`. As a context manager it runs in the background."""
        from tenure.worker import Worker

        reject_lease(options)
        return Worker(self, options)

    @reject_unknown_options
    def claim(
        self, *, limit: int = 1, lease: Seconds | None = None, wait: Seconds = 0.0, worker: str | None = None
    ) -> TableClaims[R]:
        """Claim up to `limit` due rows (at most 1,000), waiting up to `wait` seconds for the first.

        A claim holds its row for `lease` seconds, by default the lease of the table. Use the claims as a context
        manager: the leases are extended inside the block, and unsettled claims are released on exit.
        """
        request = request_of(None, None, limit, self._lease if lease is None else lease, worker)
        claims: TableClaims[R] = self._claim_with_wait(request, wait)
        return claims

    @reject_unknown_options
    def attach(self, id: RowKey, *, fence: int, token: str, lease: Seconds | None = None) -> TableClaim[R]:
        """Re-attach to a claim made elsewhere, as `Jobs.attach` does."""
        return self._attach(id, fence, token, self._lease if lease is None else lease)

    @reject_unknown_options
    def get(self, id: RowKey) -> Job | None:
        """Return the row as a `Job` whose payload is the row; None if no row has this key, or the row is not a job."""
        return self._job(self._id_of(id))

    def find(self, **filters: Unpack[RowFilters]) -> Iterator[Job]:
        """Yield the matching rows as jobs, newest first, read page by page; without filters, all rows.

        Filters: `state`, `worker`, `error` (a part of the last error), `since` (seconds since the row finished or, if
        unfinished, was created), `attempts_over`, `due`. All filters must match. `newest_first=False` reverses the
        order.
        """
        query = build_row_query("find", filters)
        return (job for page in self._pages(query) for job in page)

    def stats(self) -> Stats:
        """Count the rows by state."""
        return self._backend.stats()

    @reject_unknown_options
    def explain(self, id: RowKey) -> Explanation | None:
        """Explain why the row is not running, or how it runs; None if no row has this key, or it has no state.

        Workers are considered only if the table was created with a `Jobs`, whose registry lists them.
        """
        outlook = self._backend.explain(self._id_of(id), None, None)
        if outlook is None:
            return None
        return explain_row(outlook, None if self._jobs is None else self._jobs.workers())

    @reject_unknown_options
    def reap(self, *, worker: str | None = None) -> list[Reaped]:
        """Reap every claim whose lease expired; with `worker`, every claim of a worker that is known to be dead.

        Each claim request reaps expired leases as well; call `reap` to do so now. A row whose work is done, by a SQL
        `done_if` or the `output`, is completed.
        """
        return self._reap(worker)

    def retry(
        self, ids: RowKeys | None = None, *, reason: str | None = None, all: bool = False, **filters: Unpack[RowFilters]
    ) -> list[Moved]:
        """Queue failed or cancelled rows again and reset their attempts.

        Pass keys, or the filters of `find` (failed rows, unless `state` is set), or `all=True`. `reason` is
        recorded in the history. Returns for each row its new state, or why it was not moved.
        """
        return self._move_rows(Move.RETRY, ids, filters, states=frozenset({State.FAILED}), reason=reason, all=all)

    def cancel(
        self, ids: RowKeys | None = None, *, reason: str | None = None, all: bool = False, **filters: Unpack[RowFilters]
    ) -> list[Moved]:
        """Cancel queued rows and request the cancellation of running rows.

        Pass keys, or the filters of `find` (queued and running rows, unless `state` is set), or `all=True`.
        `reason` is recorded in the history. A running row that completes nevertheless is completed. Returns for each
        row its state, or why it was not cancelled.
        """
        return self._move_rows(Move.CANCEL, ids, filters, states=LIVE, reason=reason, all=all)

    @reject_unknown_options
    def migrate(self, *, adopt_running_after: Seconds | None = None, functions: bool = False) -> list[str]:
        """Add the columns, indexes and other objects that are missing; return the statements that were run.

        With `adopt_running_after`, rows in the running state without a lease get a lease that expires so many seconds
        after their start. With `functions`, the SQL functions for other languages are installed (claim, complete, …).
        """
        seconds = checks.optional(checks.seconds, "adopt_running_after", adopt_running_after)
        return self._backend.migrate(adopt_running_after=seconds, functions=checks.boolean("functions", functions))

    @reject_unknown_options
    def outstanding(self, *, adopt_running_after: Seconds | None = None, functions: bool = False) -> list[str]:
        """Return the statements that `migrate` would run; change nothing."""
        seconds = checks.optional(checks.seconds, "adopt_running_after", adopt_running_after)
        return self._backend.outstanding(adopt_running_after=seconds, functions=checks.boolean("functions", functions))

    def sql(self) -> Mapping[str, str]:
        """Return the SQL of each operation by its name, for reading."""
        return self._backend.sql()

    def check(self) -> list[Finding]:
        """Check the table and return the findings with their remedies, the most severe first."""
        return self._backend.check()

    def _open_store(self) -> TableStore:
        location = self._location
        if isinstance(location, Jobs):
            return table_in(location._backend, self.spec)  # noqa: SLF001 - a table shares the store of its Jobs
        return table_at(url_of(location), self.spec)

    @property
    def _context(self) -> TableContext[R]:
        return TableContext(store=self._backend, row_factory=self._row_factory, done_if=self._done_if)

    @property
    def _jobs(self) -> Jobs | None:
        """The `Jobs` that the table was created with; its registry lists the workers of the table."""
        return self._location if isinstance(self._location, Jobs) else None

    def _require_handler(self) -> RowTask:
        if self._handler is None:
            raise ConfigurationError(
                f"{self!r} has no handler: register a function with @table.handler before starting a worker"
            )
        return self._handler

    def _build_claim(self, holder: Holder, job: Job, lease: Lease) -> TableClaim[R]:
        return TableClaim(holder, job, lease, self._context)

    def _build_claims(self, holder: Holder, claims: Sequence[TableClaim[R]]) -> TableClaims[R]:
        for claim in claims[:1]:
            try:
                self._row_factory.require_fields(claim.job.payload)
            except ConfigurationError:
                settle(holder.store, [build_release(each.lease.hold) for each in claims])
                raise
        return TableClaims(holder, claims)

    def _id_of(self, id: object) -> str:
        return row_id(id, len(self.spec.key))

    def _batches(self, ids: Any) -> Iterator[list[str]]:
        is_one = isinstance(ids, str | int | UUID) or (isinstance(ids, tuple) and len(self.spec.key) > 1)
        if not is_one and (isinstance(ids, bytes | Mapping) or not isinstance(ids, Iterable)):
            raise ConfigurationError(f"ids must be a key or an iterable of keys, not {checks.short_repr(ids)}")
        return batches_of(list(dict.fromkeys(map(self._id_of, [ids] if is_one else ids))))

    def _move_rows(
        self,
        move: Move,
        ids: RowKeys | None,
        filters: RowFilters,
        *,
        states: frozenset[State],
        reason: str | None,
        all: bool,
    ) -> list[Moved]:
        query = build_row_query(move.value, filters, "ids", "reason", "all")
        return self._move(
            move,
            ids,
            query if query.states is not None else replace(query, states=states),
            is_all=all,
            has_condition=has_condition(filters),
            reason=reason,
            example="attempts_over=3",
        )


def _location_of(store: Any) -> str | Callable[[], str] | Jobs:
    found = getattr(store, "sync", store)
    if isinstance(found, str | Jobs):
        return found
    if not callable(found):
        raise ConfigurationError(
            f"store must be a URL such as 'sqlite:///app.db', a function that returns one, or a Jobs, "
            f"not {checks.short_repr(store)}"
        )
    return found  # type: ignore[no-any-return]


def reject_lease(options: WorkerOptions) -> None:
    """Raise if the options contain a lease: rows have the lease of their table."""
    if "lease" in options:
        raise ConfigurationError("a worker of a table takes no lease=: set it on the table, Table(…, lease=180)")


def _require_row_parameter(function: Callable[..., Any]) -> None:
    """Raise if the function cannot be called with one argument: every row would fail."""
    try:
        signature = inspect.signature(function)
    except ValueError:
        return
    try:
        signature.bind(None)
    except TypeError as exc:
        raise ConfigurationError(
            f"a handler takes a row as its only argument; {function_name(function)}{signature} does not: {exc}"
        ) from None


def _done_function(done_if: str | DoneIf | None) -> DoneIf | None:
    if done_if is None or isinstance(done_if, str):
        return None
    if not callable(done_if):
        raise ConfigurationError(
            f"done_if must be SQL or a function that takes a row, not {checks.short_repr(done_if)}"
        )
    is_async(done_if)
    return done_if
