"""Turn the Jobs and tables passed to a worker into its work sources."""

from collections.abc import Iterable, Sequence
from typing import Any

from tenure.backends.shared.isolation import StatementRejected
from tenure.backends.tables.protocol import TableStore
from tenure.client.aio.source import AsyncSource
from tenure.client.identity import new_token
from tenure.client.jobs import Jobs
from tenure.client.source import Source
from tenure.client.table import Table
from tenure.client.worker_options import WorkerOptions, WorkerSettings, settings_of
from tenure.core import checks
from tenure.core.operations import ClaimRequest, Query
from tenure.errors import ConfigurationError
from tenure.worker.handler import TaskHandler
from tenure.worker.row_source import DoneCheckingTable, RowHandler, TableSource
from tenure.worker.work_source import WorkSource

AnySource = Jobs | Table[Any]
Sources = Source[Any, Any] | Sequence[Source[Any, Any] | AsyncSource[Any]]
"""One source, or several; an `AsyncFacade` stands for its synchronous source."""


def resolve_sources(sources: Sources) -> tuple[AnySource, ...]:
    """Return the sources; raise if one is neither a Jobs nor a Table."""
    items = sources if isinstance(sources, list | tuple) else [sources]
    found: list[AnySource] = []
    for each in items:
        source = getattr(each, "sync", each)
        if not isinstance(source, Jobs | Table):
            raise ConfigurationError(f"a worker needs a Jobs or a Table, not {checks.short_repr(each)}")
        if source in found:
            raise ConfigurationError(f"{source!r} was passed twice; pass each source once")
        found.append(source)
    if not found:
        raise ConfigurationError("a worker needs at least one source; pass a Jobs, a Table, or several of them")
    return tuple(found)


def settings_for(options: WorkerOptions, sources: Sequence[AnySource]) -> WorkerSettings:
    """Return the settings of a worker of these sources; raise if an option is invalid."""
    jobs = [source for source in sources if isinstance(source, Jobs)]
    for source in sources:
        if isinstance(source, Table):
            source._require_handler()
    tasks = {type: task for each in jobs for type, task in each.tasks.items()}
    return settings_of(options, tasks if jobs else None)


def all_jobs_of(sources: Iterable[AnySource]) -> list[Jobs]:
    """Return the Jobs among the sources and the Jobs that the tables belong to, without duplicates."""
    all_jobs = (source if isinstance(source, Jobs) else source._jobs for source in sources)
    return list(dict.fromkeys(jobs for jobs in all_jobs if jobs is not None))


def build_work_sources(sources: Sequence[AnySource], settings: WorkerSettings) -> list[WorkSource]:
    """Return the work sources for these settings, without a Jobs that has none of the selected types."""
    work_sources = [
        _build_jobs_source(number, source, settings)
        if isinstance(source, Jobs)
        else _build_table_source(number, source, settings)
        for number, source in enumerate(sources)
    ]
    return [source for source in work_sources if source.handlers]


def _build_jobs_source(index: int, jobs: Jobs, settings: WorkerSettings) -> WorkSource:
    store, holder = jobs._open()
    types = [type for type in (jobs.tasks if settings.types is None else settings.types) if type in jobs.tasks]
    return WorkSource(
        index=index,
        store=store,
        endpoint=store,
        keeper=holder.keeper,
        handlers={type: TaskHandler(jobs.tasks[type], holder, jobs._arounds) for type in types},
        claim_request=_build_claim_request(settings, settings.queues, settings.lease),
    )


def _build_table_source(index: int, table: Table[Any], settings: WorkerSettings) -> WorkSource:
    store, holder = table._open()
    arounds = [] if table._jobs is None else table._jobs._arounds
    handler = RowHandler(table.name, table._require_handler(), table._context, holder, arounds)
    checks_done = table._done_if is None and store.spec.done_if is not None
    # Check one row now: a wrong row class or `done_if` raises at the start, not once for each row.
    for job in store.find(Query(limit=1)).jobs:
        table._row_factory.require_fields(job.payload)
        if checks_done:
            _check_done_if(store, job.id)
    return TableSource(
        index=index,
        store=store,
        endpoint=DoneCheckingTable(store) if checks_done else store,
        keeper=holder.keeper,
        handlers={table.name: handler},
        claim_request=_build_claim_request(settings, None, table._lease),
    )


def _check_done_if(store: TableStore, id: str) -> None:
    """Raise if the `done_if` of a table is invalid. A `done_if` that fails for this row does not stop the worker."""
    try:
        store.already_done([id])
    except StatementRejected as exc:
        if exc.is_invalid:
            raise


def _build_claim_request(settings: WorkerSettings, queues: tuple[str, ...] | None, lease: float) -> ClaimRequest:
    return ClaimRequest(queues=queues, lease=lease, worker=settings.name, token=new_token())
