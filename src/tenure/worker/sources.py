"""What a worker works for: Jobs and tables, each asked on its own, and shown where there is a registry."""

from collections.abc import Iterable, Sequence
from typing import Any

from tenure.client.aio.source import AsyncSource
from tenure.client.identity import new_token
from tenure.client.jobs import Jobs
from tenure.client.source import Source
from tenure.client.table import Table
from tenure.client.worker_options import Settings, WorkerOptions, settings_of
from tenure.core import checks
from tenure.core.operations import ClaimRequest, Query
from tenure.errors import ConfigurationError
from tenure.worker.handler import TaskHandler
from tenure.worker.row_source import LookingTable, RowHandler, TableSupply
from tenure.worker.work_source import Supply

AnySource = Jobs | Table[Any]
Sources = Source[Any, Any] | Sequence[Source[Any, Any] | AsyncSource[Any]]
"""One source, or several; a twin stands for its other half."""


def sources_of(given: Sources) -> tuple[AnySource, ...]:
    """Return the sources, or raise for what cannot be one."""
    named = given if isinstance(given, list | tuple) else [given]
    found: list[AnySource] = []
    for each in named:
        source = getattr(each, "sync", each)
        if not isinstance(source, Jobs | Table):
            raise ConfigurationError(f"a worker works for a Jobs, or a Table, not for {checks.shown(each)}")
        if source in found:
            raise ConfigurationError(f"{source!r} is given twice; name each source once")
        found.append(source)
    if not found:
        raise ConfigurationError("a worker needs something to work for; give it a Jobs, a Table, or several of them")
    return tuple(found)


def settings_for(options: WorkerOptions, sources: Sequence[AnySource]) -> Settings:
    """Return what the options mean for a worker of these sources, or raise."""
    jobs = [source for source in sources if isinstance(source, Jobs)]
    for source in sources:
        if isinstance(source, Table):
            source._must_have_a_handler()
    tasks = {type: task for each in jobs for type, task in each.tasks.items()}
    return settings_of(options, tasks if jobs else None)


def homes_of(sources: Iterable[AnySource]) -> list[Jobs]:
    """Return the Jobs among the sources and those that tables were made with, each once."""
    homes = (source if isinstance(source, Jobs) else source._home for source in sources)
    return list(dict.fromkeys(home for home in homes if home is not None))


def supplies_of(sources: Sequence[AnySource], settings: Settings) -> list[Supply]:
    """Return the sources as a worker with these settings asks them; a Jobs that has none of the types is not asked."""
    supplies = [
        _of_jobs(number, source, settings) if isinstance(source, Jobs) else _of_table(number, source, settings)
        for number, source in enumerate(sources)
    ]
    return [supply for supply in supplies if supply.handlers]


def _of_jobs(number: int, jobs: Jobs, settings: Settings) -> Supply:
    store, holder = jobs._open()
    types = [type for type in (jobs.tasks if settings.types is None else settings.types) if type in jobs.tasks]
    return Supply(
        number=number,
        store=store,
        asked=store,
        keeper=holder.keeper,
        handlers={type: TaskHandler(jobs.tasks[type], holder, jobs._arounds) for type in types},
        request=_request(settings, settings.queues, settings.lease),
    )


def _of_table(number: int, table: Table[Any], settings: Settings) -> Supply:
    store, holder = table._open()
    arounds = [] if table._home is None else table._home._arounds
    handler = RowHandler(table.name, table._must_have_a_handler(), table._rows, holder, arounds)
    is_asked = table._done_if is None and store.spec.done_if is not None
    # What does not fit the table is told here and now, not by each row.
    for job in store.find(Query(limit=1)).jobs:
        table._shape.must_fit(job.payload)
        if is_asked:
            store.already_done([job.id])
    return TableSupply(
        number=number,
        store=store,
        asked=LookingTable(store) if is_asked else store,
        keeper=holder.keeper,
        handlers={table.name: handler},
        request=_request(settings, None, table._lease),
    )


def _request(settings: Settings, queues: tuple[str, ...] | None, lease: float) -> ClaimRequest:
    return ClaimRequest(queues=queues, lease=lease, worker=settings.name, token=new_token())
