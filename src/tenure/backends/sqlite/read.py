"""The read-only operations: find, stats, counts, workers, and the poll of a waiting claim."""

import re
import sqlite3
from collections.abc import Sequence

from tenure.backends.protocol import SCAN
from tenure.backends.shared.sql_files import statements
from tenure.backends.sqlite.lanes import filter_variant, statement_variants
from tenure.backends.sqlite.rows import JOB, SqlRow, decode_job, decode_worker, encode_names
from tenure.backends.sqlite.timestamps import duration, to_datetime, to_optional_datetime
from tenure.core.job import State
from tenure.core.operations import COUNTS_KEPT, Count, Event, Page, Query, Stats, StatsRow, WorkerInfo
from tenure.errors import ConfigurationError

MINUTE = duration(60)
LAST_SEQUENCE = 2**63 - 1

STATS = statements(__package__, "stats")
COUNTS = statements(__package__, "counts")
PAUSE = statements(__package__, "pause")
WORKERS = statements(__package__, "workers")
WAIT = statement_variants("wait")

DIRECTIONS = {True: {"order": "desc", "beyond": "<"}, False: {"order": "asc", "beyond": ">"}}
FIND_ALL = statements(__package__, "find", **DIRECTIONS[True], job="", candidates="")["all"]
FIND = {
    (newest_first, source): statements(
        __package__,
        "find",
        job=JOB,
        candidates=statements(__package__, "find", **order, job="", candidates="")[source],
        **order,
    )
    for newest_first, order in DIRECTIONS.items()
    for source in ("all", "running", "stopped", "ids")
}


def find(db: sqlite3.Connection, query: Query, now: int) -> Page:
    """Return the matching jobs among the next `SCAN`, at most one page."""
    find = FIND[query.newest_first, _candidate_source(query)]
    values = {
        "ids": encode_names(query.ids),
        "states": encode_names(None if query.states is None else sorted(query.states)),
        "queues": encode_names(query.queues),
        "types": encode_names(query.types),
        "key": query.key,
        "worker": query.worker,
        "error": query.error,
        "attempts_over": query.attempts_over,
        "due": None if query.due is None else int(query.due),
        "since": None if query.since is None else now - duration(query.since),
        "now": now,
        "cursor": _cursor_position(query),
        "scan": SCAN,
        "limit": query.limit,
    }
    rows = db.execute(find["page"], values).fetchall()
    jobs = [decode_job(row) for row in rows]
    if len(rows) == query.limit:
        return Page(jobs=jobs, cursor=str(rows[-1][-1]))
    number, first, last = db.execute(find["scanned"], values).fetchone()
    return Page(jobs=jobs, cursor=str(first if query.newest_first else last) if number == SCAN else None)


def stats(db: sqlite3.Connection, now: int) -> Stats:
    rows = db.execute(STATS["lanes"], {"now": now, "scan": SCAN}).fetchall()
    paused = db.execute(PAUSE["paused"]).fetchall()
    return Stats(rows=tuple(_stats_row(row) for row in rows), paused=tuple(queue for (queue,) in paused))


def counts(db: sqlite3.Connection, since: float, now: int) -> list[Count]:
    start = now - duration(min(since, COUNTS_KEPT))
    rows = db.execute(COUNTS["since"], {"since": start - start % MINUTE}).fetchall()
    return [
        Count(minute_at=to_datetime(minute_at), queue=queue, event=Event(event), number=number)
        for minute_at, queue, event, number in rows
    ]


def workers(db: sqlite3.Connection, now: int) -> list[WorkerInfo]:
    rows = db.execute(WORKERS["workers"], {"now": now}).fetchall()
    return [decode_worker(row) for row in rows]


def claimable_in(
    db: sqlite3.Connection, now: int, *, queues: Sequence[str] | None, types: Sequence[str] | None
) -> float | None:
    """Return the seconds until a claim may find a job; 0 means now, None means no job is expected."""
    wait = WAIT[filter_variant(queues, types)]
    values = {"queues": encode_names(queues), "types": encode_names(types)}
    (is_due,) = db.execute(wait["is due"], values).fetchone()
    if is_due:
        return 0.0
    nearest = [each for each in db.execute(wait["next"], values).fetchone() if each is not None]
    return max(0, min(nearest) - now) / 1_000_000 if nearest else None


def _candidate_source(query: Query) -> str:
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
        raise ConfigurationError(f"invalid cursor {query.cursor!r}: pass the cursor of a page that find returned")
    return int(query.cursor)


def _stats_row(row: SqlRow) -> StatsRow:
    queue, type, due, scheduled, running, completed, failed, cancelled, came_due, oldest, oldest_came_due = row
    timestamps = [each for each in (oldest, oldest_came_due) if each is not None]
    return StatsRow(
        queue=queue,
        type=type,
        due=due + came_due,
        scheduled=scheduled - came_due,
        running=running,
        completed=completed,
        failed=failed,
        cancelled=cancelled,
        oldest_due_at=to_optional_datetime(min(timestamps, default=None)),
    )
