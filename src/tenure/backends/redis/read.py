"""Read operations: find, stats, explain, counts, workers; and the heartbeat of a worker."""

import json
import re
from collections.abc import Sequence

from tenure.backends.protocol import SCAN
from tenure.backends.redis.encoding import (
    Argument,
    decode_optional_timestamp,
    decode_timestamp,
    encode_duration,
    encode_json,
    encode_list,
    encode_names,
    encode_timestamp,
    quote_name,
)
from tenure.backends.redis.rows import DIGITS, decode_jobs, decode_worker
from tenure.backends.redis.script import script
from tenure.backends.redis.server import Server
from tenure.core.job import Job, State
from tenure.core.operations import (
    COUNTS_KEPT,
    MAX_AHEAD_COUNTED,
    ClaimOutlook,
    Count,
    Event,
    Heartbeat,
    Page,
    Query,
    Stats,
    StatsRow,
    WorkerInfo,
)
from tenure.errors import ConfigurationError

FIND_BATCH = 1_000
"""Jobs that one script examines: a longer script would block the server."""
COUNTS_BATCH = 10_000
"""Counts that one script returns. A day may have many; counts of past minutes do not change between two scripts."""


def find(server: Server, query: Query) -> Page:
    """Return the matching jobs among the next `SCAN`, at most one page."""
    source, conditions = _scan_source(query), _query_arguments(query)
    now, cursor = encode_timestamp(server.now()), _parse_cursor(query.cursor)
    jobs: list[Job] = []
    seen = 0
    while True:
        # The first script examines one page: most queries have no condition, or a condition that most jobs meet.
        most = min(FIND_BATCH, SCAN - seen) if seen else min(FIND_BATCH, query.limit)
        where: list[Argument] = [now, *source, int(query.newest_first), cursor, most, query.limit - len(jobs)]
        response, last, examined = server.run(script("find"), [*where, *conditions])
        jobs += decode_jobs(response)
        seen += examined
        cursor = last.decode()
        if not cursor or len(jobs) == query.limit or seen >= SCAN:
            return Page(jobs=jobs, cursor=cursor or None)


def stats(server: Server) -> Stats:
    rows, paused = server.run(script("stats"), [encode_timestamp(server.now()), SCAN])
    return Stats(
        rows=tuple(sorted((_build_stats_row(*row) for row in json.loads(rows)), key=lambda row: (row.queue, row.type))),
        paused=tuple(sorted(json.loads(paused))),
    )


def explain(server: Server, id: str, queues: Sequence[str] | None, types: Sequence[str] | None) -> ClaimOutlook | None:
    response = server.run(
        script("explain"),
        [encode_timestamp(server.now()), id, *encode_names(queues), *encode_names(types), SCAN, MAX_AHEAD_COUNTED],
    )
    if response is None:
        return None
    now, jobs, is_paused, ahead, holder = response
    (job,) = decode_jobs(jobs)
    known = json.loads(holder)
    return ClaimOutlook(
        now=decode_timestamp(int(now)),
        job=job,
        is_paused=bool(is_paused),
        ahead=ahead,
        holder=None if known is None else decode_worker(*known),
    )


def counts(server: Server, since: float) -> list[Count]:
    now, span, last = encode_timestamp(server.now()), encode_duration(min(since, COUNTS_KEPT)), b""
    found: list[Count] = []
    while True:
        response = server.run(script("counts"), [now, span, last, COUNTS_BATCH])
        found += (_decode_count(field, number) for field, number in zip(response[::2], response[1::2], strict=True))
        if len(response) < 2 * COUNTS_BATCH:
            return sorted(found, key=lambda count: (count.minute_at, count.queue, count.event))
        last = response[-2]


def beat(server: Server, beat: Heartbeat, ttl: float) -> None:
    fields = [beat.version, beat.concurrency, beat.queues, beat.types, beat.quiet_for]
    text = f"{quote_name(beat.name)},{quote_name(beat.host)},{beat.pid},{encode_json(fields)[1:-1]}"
    server.run(script("beat"), [encode_timestamp(server.now()), quote_name(beat.name), encode_duration(ttl), text])


def workers(server: Server) -> list[WorkerInfo]:
    found = json.loads(server.run(script("workers"), [encode_timestamp(server.now())]))
    return sorted((decode_worker(*each) for each in found), key=lambda worker: worker.name)


def _scan_source(query: Query) -> list[Argument]:
    """Return the smallest set of jobs that contains every match."""
    if query.ids is not None:
        return ["ids", *encode_list(query.ids)]
    if query.states == frozenset({State.RUNNING}):
        return ["running", 0]
    return ["stopped" if query.states and query.states <= {State.FAILED, State.CANCELLED} else "all", 0]


def _query_arguments(query: Query) -> list[Argument]:
    return [
        "" if query.states is None else "".join(DIGITS[state] for state in query.states) or "-",
        *encode_names(query.queues),
        *encode_names(query.types),
        "" if query.key is None else quote_name(query.key),
        "" if query.worker is None else quote_name(query.worker),
        "" if query.since is None else encode_duration(query.since),
        "" if query.attempts_over is None else query.attempts_over,
        "" if query.due is None else int(query.due),
        query.error or "",
    ]


def _parse_cursor(cursor: str | None) -> str:
    if cursor is not None and not re.fullmatch(r"[0-9]{14}", cursor):
        raise ConfigurationError(f"invalid cursor {cursor!r}: pass the cursor of a page returned by find")
    return cursor or ""


def _build_stats_row(
    queue: str,
    type: str,
    due: int,
    scheduled: int,
    running: int,
    completed: int,
    failed: int,
    cancelled: int,
    oldest_due_at: int | None,
) -> StatsRow:
    return StatsRow(
        queue=queue,
        type=type,
        due=due,
        scheduled=scheduled,
        running=running,
        completed=completed,
        failed=failed,
        cancelled=cancelled,
        oldest_due_at=decode_optional_timestamp(oldest_due_at),
    )


def _decode_count(field: bytes, number: bytes) -> Count:
    minute, queue, event = field.decode().split(",")
    minute_at = decode_timestamp(int(minute))
    return Count(minute_at=minute_at, queue=json.loads(queue), event=Event(event), number=int(number))
