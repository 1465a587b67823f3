"""Read-only operations: find, stats, counts, workers."""

import re
from functools import cache

from tenure.backends.postgres.database import Database
from tenure.backends.postgres.encoding import array, microseconds, optional_array, parse_timestamp
from tenure.backends.postgres.pipeline import BoundQuery
from tenure.backends.postgres.rows import JsonRow, decode_job, decode_worker
from tenure.backends.postgres.statements import Statement, number_values, sql_in
from tenure.backends.protocol import SCAN
from tenure.core.job import State
from tenure.core.operations import COUNTS_KEPT, Count, Event, Page, Query, Stats, StatsRow, WorkerInfo
from tenure.errors import ConfigurationError

LAST_SEQUENCE = 2**63 - 1

ORDERS = {True: {"order": "desc", "beyond": "<"}, False: {"order": "asc", "beyond": ">"}}


def find(database: Database, query: Query) -> Page:
    """Return the matching jobs among the next `SCAN`, at most one page."""
    values = {
        "ids": optional_array(query.ids),
        "states": None if query.states is None else array(sorted(query.states)),
        "queues": optional_array(query.queues),
        "types": optional_array(query.types),
        "key": query.key,
        "worker": query.worker,
        "error": query.error,
        "attempts_over": query.attempts_over,
        "due": query.due,
        "since": None if query.since is None else microseconds(query.since),
        "cursor": _cursor_position(query),
        "scan": SCAN,
        "limit": query.limit,
        "now": database.now(),
    }
    ((rows, last),) = database.execute(
        [BoundQuery(_find_statement(database.address.schema, _source(query), query.newest_first), values)]
    )
    return Page(jobs=[decode_job(row) for row in rows], cursor=None if last is None else str(last))


def stats(database: Database) -> Stats:
    values = {"scan": SCAN, "now": database.now()}
    ((rows, paused),) = database.execute([BoundQuery(database.statements["stats"]["stats"], values)])
    return Stats(rows=tuple(_stats_row(row) for row in rows), paused=tuple(paused))


def counts(database: Database, since: float) -> list[Count]:
    values = {"since": microseconds(min(since, COUNTS_KEPT)), "now": database.now()}
    (rows,) = database.execute([BoundQuery(database.statements["counts"]["since"], values)])
    return [
        Count(minute_at=parse_timestamp(minute_at), queue=queue, event=Event(event), number=number)
        for minute_at, queue, event, number in rows
    ]


def workers(database: Database) -> list[WorkerInfo]:
    (rows,) = database.execute([BoundQuery(database.statements["workers"]["workers"], {"now": database.now()})])
    return [decode_worker(row) for row in rows]


@cache
def _find_statement(schema: str, source: str, newest_first: bool) -> Statement:  # noqa: FBT001
    texts, order = sql_in(schema)["find"], ORDERS[newest_first]
    parts = {name: texts[name].format(**order) for name in ("live", "finished", "first")}
    parts["running"] = texts["running"].format(**parts, **order)
    candidates = texts[source].format(**parts, **order)
    return number_values(texts["page"].format(candidates=candidates, **order))


def _source(query: Query) -> str:
    """Return the smallest source of candidates that the query allows."""
    if query.ids is not None:
        return "ids"
    if query.states == frozenset({State.RUNNING}):
        return "running"
    return "stopped" if query.states and query.states <= {State.FAILED, State.CANCELLED} else "all"


def _cursor_position(query: Query) -> int:
    if query.cursor is None:
        return LAST_SEQUENCE if query.newest_first else 0
    if not re.fullmatch(r"[0-9]{1,18}", query.cursor):
        raise ConfigurationError(f"invalid cursor {query.cursor!r}: pass the cursor of a page returned by find")
    return int(query.cursor)


def _stats_row(row: JsonRow) -> StatsRow:
    queue, type, due, scheduled, running, completed, failed, cancelled, oldest_due_at = row
    return StatsRow(
        queue=queue,
        type=type,
        due=due,
        scheduled=scheduled,
        running=running,
        completed=completed,
        failed=failed,
        cancelled=cancelled,
        oldest_due_at=None if oldest_due_at is None else parse_timestamp(oldest_due_at),
    )
