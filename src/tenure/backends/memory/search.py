"""Finding jobs page by page."""

from collections.abc import Iterator, Mapping
from datetime import datetime, timedelta

from tenure.backends.memory.enqueue_order import Catalogue
from tenure.backends.memory.record import Record
from tenure.backends.protocol import SCAN
from tenure.core.job import Outcome, State
from tenure.core.operations import Page, Query
from tenure.errors import ConfigurationError


def find_page(records: Mapping[str, Record], catalogue: Catalogue, query: Query, now: datetime) -> Page:
    """Return the jobs that match among the next `SCAN`, at most a page full."""
    found: list[Record] = []
    for seen, record in enumerate(_candidates(records, catalogue, query), start=1):
        if _matches(record, query, now):
            found.append(record)
        if len(found) == query.limit or seen == SCAN:
            return Page(jobs=[each.job() for each in found], cursor=str(record.sequence))
    return Page(jobs=[each.job() for each in found], cursor=None)


def _candidates(records: Mapping[str, Record], catalogue: Catalogue, query: Query) -> Iterator[Record]:
    """Yield the jobs beyond the cursor in the order of the query: those it names, or all."""
    cursor = _position(query.cursor)
    if query.ids is None:
        for id in catalogue.beyond(cursor, newest_first=query.newest_first):
            yield records[id]
        return
    named = {records[id].sequence: records[id] for id in query.ids if id in records}
    for sequence in sorted(named, reverse=query.newest_first):
        if cursor is None or (sequence < cursor if query.newest_first else sequence > cursor):
            yield named[sequence]


def _position(cursor: str | None) -> int | None:
    if cursor is not None and not (cursor.isascii() and cursor.isdecimal()):
        raise ConfigurationError(f"cursor {cursor!r} is not one that find gave")
    return None if cursor is None else int(cursor)


def _matches(record: Record, query: Query, now: datetime) -> bool:
    entry = record.entry
    return (
        (query.states is None or record.state in query.states)
        and (query.queues is None or entry.queue in query.queues)
        and (query.types is None or entry.type in query.types)
        and (query.key is None or entry.key == query.key)
        and (query.worker is None or record.worker == query.worker)
        and (query.attempts_over is None or record.attempts > query.attempts_over)
        and (query.due is None or (record.state is State.QUEUED and (record.run_at <= now) is query.due))
        and (query.since is None or _last_moment(record) >= now - timedelta(seconds=query.since))
        and (query.error is None or query.error in _last_error(record))
    )


def _last_moment(record: Record) -> datetime:
    return record.finished_at or record.created_at


def _last_error(record: Record) -> str:
    errors = (each.error for each in reversed(record.history) if each.outcome is not Outcome.OPERATOR)
    return next((error for error in errors if error is not None), "")
