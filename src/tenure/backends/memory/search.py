"""Find jobs page by page."""

from collections.abc import Iterator, Mapping
from datetime import datetime, timedelta

from tenure.backends.memory.enqueue_order import EnqueueOrder
from tenure.backends.memory.record import StoredJob
from tenure.backends.protocol import SCAN
from tenure.core.job import Outcome, State
from tenure.core.operations import Page, Query
from tenure.errors import ConfigurationError


def find_page(jobs: Mapping[str, StoredJob], enqueue_order: EnqueueOrder, query: Query, now: datetime) -> Page:
    """Return the matching jobs among the next `SCAN`, at most one page."""
    found: list[StoredJob] = []
    for seen, job in enumerate(_candidates(jobs, enqueue_order, query), start=1):
        if _matches(job, query, now):
            found.append(job)
        if len(found) == query.limit or seen == SCAN:
            return Page(jobs=[each.job() for each in found], cursor=str(job.sequence))
    return Page(jobs=[each.job() for each in found], cursor=None)


def _candidates(jobs: Mapping[str, StoredJob], enqueue_order: EnqueueOrder, query: Query) -> Iterator[StoredJob]:
    """Yield the jobs beyond the cursor in the order of the query: the named jobs, or all."""
    cursor = _parse_cursor(query.cursor)
    if query.ids is None:
        for id in enqueue_order.ids_beyond(cursor, newest_first=query.newest_first):
            yield jobs[id]
        return
    named = {jobs[id].sequence: jobs[id] for id in query.ids if id in jobs}
    for sequence in sorted(named, reverse=query.newest_first):
        if cursor is None or (sequence < cursor if query.newest_first else sequence > cursor):
            yield named[sequence]


def _parse_cursor(cursor: str | None) -> int | None:
    if cursor is not None and not (cursor.isascii() and cursor.isdecimal()):
        raise ConfigurationError(f"invalid cursor {cursor!r}: pass the cursor of a page that find returned")
    return None if cursor is None else int(cursor)


def _matches(job: StoredJob, query: Query, now: datetime) -> bool:
    record = job.record
    return (
        (query.states is None or job.state in query.states)
        and (query.queues is None or record.queue in query.queues)
        and (query.types is None or record.type in query.types)
        and (query.key is None or record.key == query.key)
        and (query.worker is None or job.worker == query.worker)
        and (query.attempts_over is None or job.attempts > query.attempts_over)
        and (query.due is None or (job.state is State.QUEUED and (job.run_at <= now) is query.due))
        and (query.since is None or _last_change_at(job) >= now - timedelta(seconds=query.since))
        and (query.error is None or query.error in _last_error(job))
    )


def _last_change_at(job: StoredJob) -> datetime:
    return job.finished_at or job.created_at


def _last_error(job: StoredJob) -> str:
    errors = (each.error for each in reversed(job.history) if each.outcome is not Outcome.OPERATOR)
    return next((error for error in errors if error is not None), "")
