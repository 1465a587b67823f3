"""A table of the user's own: its rows are the jobs."""

import inspect
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, Generic, TypeAlias, TypedDict, TypeVar, Unpack, overload
from uuid import UUID

from tenure.backends.tables.open import table_at, table_in
from tenure.backends.tables.protocol import Finding, TableStore
from tenure.backends.urls import name_of, url_of
from tenure.client.claim import Holder
from tenure.client.jobs import Jobs
from tenure.client.keeper import Lease
from tenure.client.row import Row, shape_of
from tenure.client.row_claim import DoneIf, Rows, TableClaim, TableClaims
from tenure.client.source import Source, batches_of, request_of
from tenure.client.worker_options import WorkerOptions
from tenure.core import checks
from tenure.core.backoff import Backoff
from tenure.core.checks import Seconds, known_options
from tenure.core.explanation import Explanation, explain_row
from tenure.core.filters import RowFilters, has_condition, row_query_of
from tenure.core.job import LIVE, Job, State, time_limit
from tenure.core.operations import Move, Moved, Reaped, Stats, lease_of
from tenure.core.table.options import table_spec
from tenure.core.table.spec import Columns, StateWords, TableSpec, id_of
from tenure.core.transitions import released
from tenure.errors import ConfigurationError, DuplicateTask
from tenure.tasks.registry import Errors, name_of_function, policy_of
from tenure.tasks.task import Policy, are_same, is_async

if TYPE_CHECKING:
    from tenure.client.aio import AsyncJobs
    from tenure.client.aio.table import AsyncTable
    from tenure.worker import Summary, Worker

F = TypeVar("F", bound=Callable[..., Any])
R = TypeVar("R")

Key = str | int | UUID | tuple[str | int | UUID, ...]
"""What names a row: the value of its key, or of a key of several columns a tuple of them, or its id as text."""
Keys = Key | Iterable[Key]

Place: TypeAlias = "str | Callable[[], str] | Jobs | AsyncJobs"
"""Where a table is: a URL of its database, a function that returns one, or a Jobs in the same database."""


class TableOptions(TypedDict, total=False):
    """What can be said about a table: see `Table`."""

    id: str | Sequence[str]
    schema: str | None
    columns: Columns | None
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
    """The function that a worker calls with a row, and its policy."""

    function: Callable[..., Any]
    policy: Policy


class Table(Source[TableStore, TableClaim[R]], Generic[R]):
    """A table that exists, and whose rows are the jobs. It is looked at when it is first used.

    `store` is the URL of its database, a function that returns one, or a `Jobs` in the same database, whose connections
    it shares. `name` may have a schema before it. `id` is the key, `columns` say which columns play which role, and
    `states` which words mean which state; `order_by` says which row comes first. Only rows that `where` chooses are
    claimed, with `params` for the values that it names as `:name`. `on_retry` are columns that a retry by hand sets.
    With `sidecar` the table is left as it is, and a companion table beside it has what is noted.

    `done_if` tells whether the work of a row is done: a condition in SQL, or a function of the row. A worker asks it
    for each row that it claimed, before the handler; one in SQL is also asked when a lease ran out. `output` names the
    column of another table in which the key of a row stands when its work is done: the same as such a condition, and
    `migrate` makes it unique.
    """

    kind = "Table"

    @overload
    def __init__(self: "Table[Row]", store: Place, name: str, **options: Unpack[TableOptions]) -> None: ...
    @overload
    def __init__(self, store: Place, name: str, *, row: type[R], **options: Unpack[TableOptions]) -> None: ...

    @known_options
    def __init__(
        self,
        store: Any,
        name: str,
        *,
        id: str | Sequence[str] = "id",
        schema: str | None = None,
        columns: Columns | None = None,
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
        self._place: str | Callable[[], str] | Jobs = _place(store)
        self._done_if = _function(done_if)
        self._lease = lease_of(lease)
        described = table_spec(
            name,
            id=id,
            schema=schema,
            columns=columns,
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
        self.spec: TableSpec = replace(described, lease=self._lease, backoff=self._backoff)
        self._shape = shape_of(row, self.spec.shown)
        self._timeout = time_limit(timeout)
        self._handler: RowTask | None = None
        self._twin: AsyncTable[R] | None = None

    def __reduce__(self) -> tuple[object, ...]:
        raise TypeError(f"{self!r} cannot go to another process; have it imported there")

    def __repr__(self) -> str:
        where = repr(self._place) if isinstance(self._place, Jobs) else name_of(self._place)
        return f"<Table {self.spec.shown!r} in {where}>"

    @property
    def name(self) -> str:
        """The name of the table: the queue and the type under which its rows are shown as jobs."""
        return self.spec.label

    @property
    def aio(self) -> "AsyncTable[R]":
        """The same for async code: every verb awaited, over the same store."""
        if (twin := self._twin) is not None:
            return twin
        from tenure.client.aio.table import table_twin_of

        with self._lock:
            return self._twin or table_twin_of(self)

    @overload
    def handler(self, function: F, /) -> F: ...
    @overload
    def handler(
        self, *, timeout: Seconds | None = None, backoff: Backoff | None = None, give_up_on: Errors = ()
    ) -> Callable[[F], F]: ...

    @known_options
    def handler(
        self,
        function: Any = None,
        *,
        timeout: Seconds | None = None,
        backoff: Backoff | None = None,
        give_up_on: Errors = (),
    ) -> Any:
        """Have a function, sync or async, called with each row by the workers of this table. It stays what it is.

        A run may take so many seconds, by default the `timeout` of the table; the `backoff` as well is by default that
        of the table. After an exception of `give_up_on` a row is not tried again.
        """
        policy = policy_of(self._timeout if timeout is None else timeout, backoff, give_up_on)

        def register(function: F) -> F:
            if not callable(function):
                raise ConfigurationError(f"a handler is a function of a row, not {checks.shown(function)}")
            is_async(function)
            _must_take_a_row(function)
            known = self._handler
            if known is not None and not are_same(function, known.function):
                raise DuplicateTask(
                    f"the table {self.spec.shown!r} has the handler {name_of_function(known.function)}, so it cannot "
                    f"have {name_of_function(function)} as well; make another Table of it, with a where= of its own"
                )
            self._handler = RowTask(function, policy)
            return function

        return register if function is None else register(function)

    def work(self, **options: Unpack[WorkerOptions]) -> "Summary":
        """Run the handler for each due row until a signal, or with `drain=True` until none is due.

        The options are those of `Jobs.work`, but for `queues`, `types` and `lease`, which a table has of its own.
        """
        from tenure.worker import work

        refuse_lease(options)
        return work(self, **options)

    def worker(self, **options: Unpack[WorkerOptions]) -> "Worker":
        """Return a worker with the options of `work`, to be used as a block: it runs beside what the block does."""
        from tenure.worker import Worker

        refuse_lease(options)
        return Worker(self, options)

    @known_options
    def claim(
        self, *, limit: int = 1, lease: Seconds | None = None, wait: Seconds = 0.0, worker: str | None = None
    ) -> TableClaims[R]:
        """Take up to `limit` due rows, waiting up to `wait` seconds for the first; by default for the table's lease.

        Use the claims as a block to have them kept alive while you work; those you do not settle are released.
        """
        request = request_of(None, None, limit, self._lease if lease is None else lease, worker)
        claims: TableClaims[R] = self._take(request, wait)
        return claims

    @known_options
    def claimed(self, id: Key, *, fence: int, token: str, lease: Seconds | None = None) -> TableClaim[R]:
        """Return the handle of a claim that was made elsewhere, as `Jobs.claimed` does."""
        return self._claimed(id, fence, token, self._lease if lease is None else lease)

    @known_options
    def get(self, id: Key) -> Job | None:
        """Return the row as a job, whose payload it is; None if there is none with this key, or it is no job."""
        return self._job(self._id_of(id))

    def find(self, **filters: Unpack[RowFilters]) -> Iterator[Job]:
        """Yield the rows that match, read page by page; without a condition, all."""
        query = row_query_of("find", filters)
        return (job for page in self._pages(query) for job in page)

    def stats(self) -> Stats:
        """Count the rows by state."""
        return self._backend.stats()

    @known_options
    def explain(self, id: Key) -> Explanation | None:
        """Tell why the row is not running, or how it runs; None if there is none with this key, or it has no state.

        Of workers it speaks only if the table was made with a `Jobs`, which knows those that were started so.
        """
        standing = self._backend.standing(self._id_of(id), None, None)
        if standing is None:
            return None
        return explain_row(standing, None if self._home is None else self._home.workers())

    @known_options
    def reap(self, *, worker: str | None = None) -> list[Reaped]:
        """Take back every claim whose lease ran out; with a worker that you know is dead, all that it holds.

        Claims do the first by themselves; this does it now. A row whose work is done, as a `done_if` in SQL or the
        `output` tells, is completed.
        """
        return self._reap(worker)

    def retry(
        self, ids: Keys | None = None, *, reason: str | None = None, all: bool = False, **filters: Unpack[RowFilters]
    ) -> list[Moved]:
        """Queue failed or cancelled rows again, with fresh attempts: those named, or the failed ones that match."""
        return self._move_rows(Move.RETRY, ids, filters, states=frozenset({State.FAILED}), reason=reason, all=all)

    def cancel(
        self, ids: Keys | None = None, *, reason: str | None = None, all: bool = False, **filters: Unpack[RowFilters]
    ) -> list[Moved]:
        """Cancel queued rows and ask running ones to stop: those named, or those that match."""
        return self._move_rows(Move.CANCEL, ids, filters, states=LIVE, reason=reason, all=all)

    @known_options
    def migrate(self, *, adopt_running_after: Seconds | None = None, functions: bool = False) -> list[str]:
        """Add to the table what is missing, and return the statements that did; nothing missing, none.

        With `adopt_running_after`, rows that were left in running without a lease get one that ends so many seconds
        after they were started. With `functions`, those for other languages are installed: claim, complete and others.
        """
        seconds = checks.optional(checks.seconds, "adopt_running_after", adopt_running_after)
        return self._backend.migrate(adopt_running_after=seconds, functions=checks.truth("functions", functions))

    @known_options
    def outstanding(self, *, adopt_running_after: Seconds | None = None, functions: bool = False) -> list[str]:
        """Return the statements that `migrate` would run."""
        seconds = checks.optional(checks.seconds, "adopt_running_after", adopt_running_after)
        return self._backend.outstanding(adopt_running_after=seconds, functions=checks.truth("functions", functions))

    def texts(self) -> Mapping[str, str]:
        """Return the statements of each operation by its name, to be read."""
        return self._backend.texts()

    def examine(self) -> list[Finding]:
        """Return what is wrong with the table or remarkable about it, each with its remedy, the gravest first."""
        return self._backend.examine()

    def _open_store(self) -> TableStore:
        place = self._place
        return table_in(place._backend, self.spec) if isinstance(place, Jobs) else table_at(url_of(place), self.spec)  # noqa: SLF001 - it shares what that has open

    @property
    def _rows(self) -> Rows[R]:
        return Rows(store=self._backend, shape=self._shape, done_if=self._done_if)

    @property
    def _home(self) -> Jobs | None:
        """The Jobs that it was made with: its workers are shown in that one's registry."""
        return self._place if isinstance(self._place, Jobs) else None

    def _must_have_a_handler(self) -> RowTask:
        if self._handler is None:
            raise ConfigurationError(
                f"there is nothing to run for {self!r}: name a function of its rows with @….handler, then start"
            )
        return self._handler

    def _claim_of(self, holder: Holder, job: Job, lease: Lease) -> TableClaim[R]:
        return TableClaim(holder, job, lease, self._rows)

    def _claims_of(self, holder: Holder, claims: Sequence[TableClaim[R]]) -> TableClaims[R]:
        for claim in claims[:1]:
            try:
                self._shape.must_fit(claim.job.payload)
            except ConfigurationError:
                holder.store.settle([released(each.lease.hold) for each in claims])
                raise
        return TableClaims(holder, claims)

    def _id_of(self, id: object) -> str:
        return id_of(id, len(self.spec.key))

    def _batches(self, ids: Any) -> Iterator[list[str]]:
        is_one = isinstance(ids, str | int | UUID) or (isinstance(ids, tuple) and len(self.spec.key) > 1)
        if not is_one and (isinstance(ids, bytes | Mapping) or not isinstance(ids, Iterable)):
            raise ConfigurationError(f"ids must be the key of a row or several of them, not {checks.shown(ids)}")
        return batches_of(list(dict.fromkeys(map(self._id_of, [ids] if is_one else ids))))

    def _move_rows(
        self,
        move: Move,
        ids: Keys | None,
        filters: RowFilters,
        *,
        states: frozenset[State],
        reason: str | None,
        all: bool,
    ) -> list[Moved]:
        query = row_query_of(move.value, filters, "ids", "reason", "all")
        return self._move(
            move,
            ids,
            query if query.states is not None else replace(query, states=states),
            is_all=all,
            has_condition=has_condition(filters),
            reason=reason,
            like="attempts_over=3",
        )


def _place(store: Any) -> str | Callable[[], str] | Jobs:
    found = getattr(store, "sync", store)
    if isinstance(found, str | Jobs):
        return found
    if not callable(found):
        raise ConfigurationError(
            f"a table is in the database of a Jobs or a URL, such as 'sqlite:///app.db', not in {checks.shown(store)}"
        )
    return found  # type: ignore[no-any-return]


def refuse_lease(options: WorkerOptions) -> None:
    """Raise for a lease that is meant for the rows: they have that of their table."""
    if "lease" in options:
        raise ConfigurationError("a table has its own lease: Table(…, lease=180); leave lease out here")


def _must_take_a_row(function: Callable[..., Any]) -> None:
    """Raise if it cannot be called with one value: else every row would fail for that."""
    try:
        taken = inspect.signature(function)
    except ValueError:
        return
    try:
        taken.bind(None)
    except TypeError as exc:
        raise ConfigurationError(
            f"a handler is called with a row and nothing else, and {name_of_function(function)}{taken} cannot be: {exc}"
        ) from None


def _function(done_if: str | DoneIf | None) -> DoneIf | None:
    if done_if is None or isinstance(done_if, str):
        return None
    if not callable(done_if):
        raise ConfigurationError(f"done_if must be SQL, or a function of the row, not {checks.shown(done_if)}")
    is_async(done_if)
    return done_if
