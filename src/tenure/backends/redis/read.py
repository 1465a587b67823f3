"""What is only read: find, stats, standing, counts, workers; and a worker's sign of life."""

import json
import re
from collections.abc import Sequence

from tenure.backends.protocol import SCAN
from tenure.backends.redis.encoding import (
    Argument,
    duration,
    json_text,
    listed,
    moment,
    moment_of,
    names,
    optional_moment_of,
    quoted,
)
from tenure.backends.redis.rows import DIGITS, jobs_of, worker_of
from tenure.backends.redis.script import script
from tenure.backends.redis.server import Server
from tenure.core.job import Job, State
from tenure.core.operations import (
    COUNTS_KEPT,
    MOST_AHEAD,
    Beat,
    Count,
    Event,
    Page,
    Query,
    Standing,
    Stats,
    StatsRow,
    Worker,
)
from tenure.errors import ConfigurationError

STEP = 1_000
"""How many jobs one script looks at, so that it does not hold the server for long."""
MOST_COUNTS = 10_000
"""How many counts one script tells: those of a day may be many, and what is past does not change."""


def find(server: Server, query: Query) -> Page:
    """Return the jobs that match among the next `SCAN`, at most a page full."""
    source, conditions = _source(query), _conditions(query)
    now, cursor = moment(server.now()), _position(query.cursor)
    jobs: list[Job] = []
    seen = 0
    while True:
        # At first as many as are wanted: most queries have no condition, or one that most jobs meet.
        most = min(STEP, SCAN - seen) if seen else min(STEP, query.limit)
        where: list[Argument] = [now, *source, int(query.newest_first), cursor, most, query.limit - len(jobs)]
        answer, last, looked_at = server.run(script("find"), [*where, *conditions])
        jobs += jobs_of(answer)
        seen += looked_at
        cursor = last.decode()
        if not cursor or len(jobs) == query.limit or seen >= SCAN:
            return Page(jobs=jobs, cursor=cursor or None)


def stats(server: Server) -> Stats:
    rows, paused = server.run(script("stats"), [moment(server.now()), SCAN])
    return Stats(
        rows=tuple(sorted((_stats_row(*row) for row in json.loads(rows)), key=lambda row: (row.queue, row.type))),
        paused=tuple(sorted(json.loads(paused))),
    )


def standing(server: Server, id: str, queues: Sequence[str] | None, types: Sequence[str] | None) -> Standing | None:
    answer = server.run(script("standing"), [moment(server.now()), id, *names(queues), *names(types), SCAN, MOST_AHEAD])
    if answer is None:
        return None
    now, jobs, is_paused, ahead, holder = answer
    (job,) = jobs_of(jobs)
    known = json.loads(holder)
    return Standing(
        now=moment_of(int(now)),
        job=job,
        is_paused=bool(is_paused),
        ahead=ahead,
        holder=None if known is None else worker_of(*known),
    )


def counts(server: Server, since: float) -> list[Count]:
    now, span, last = moment(server.now()), duration(min(since, COUNTS_KEPT)), b""
    found: list[Count] = []
    while True:
        answer = server.run(script("counts"), [now, span, last, MOST_COUNTS])
        found += (_count(field, number) for field, number in zip(answer[::2], answer[1::2], strict=True))
        if len(answer) < 2 * MOST_COUNTS:
            return sorted(found, key=lambda count: (count.minute_at, count.queue, count.event))
        last = answer[-2]


def beat(server: Server, beat: Beat, ttl: float) -> None:
    said = [beat.version, beat.concurrency, beat.queues, beat.types, beat.quiet_for]
    text = f"{quoted(beat.name)},{quoted(beat.host)},{beat.pid},{json_text(said)[1:-1]}"
    server.run(script("beat"), [moment(server.now()), quoted(beat.name), duration(ttl), text])


def workers(server: Server) -> list[Worker]:
    found = json.loads(server.run(script("workers"), [moment(server.now())]))
    return sorted((worker_of(*each) for each in found), key=lambda worker: worker.name)


def _source(query: Query) -> list[Argument]:
    """Return where to look: where few other jobs are, if the query allows."""
    if query.ids is not None:
        return ["ids", *listed(query.ids)]
    if query.states == frozenset({State.RUNNING}):
        return ["running", 0]
    return ["stopped" if query.states and query.states <= {State.FAILED, State.CANCELLED} else "all", 0]


def _conditions(query: Query) -> list[Argument]:
    return [
        "" if query.states is None else "".join(DIGITS[state] for state in query.states) or "-",
        *names(query.queues),
        *names(query.types),
        "" if query.key is None else quoted(query.key),
        "" if query.worker is None else quoted(query.worker),
        "" if query.since is None else duration(query.since),
        "" if query.attempts_over is None else query.attempts_over,
        "" if query.due is None else int(query.due),
        query.error or "",
    ]


def _position(cursor: str | None) -> str:
    if cursor is not None and not re.fullmatch(r"[0-9]{14}", cursor):
        raise ConfigurationError(f"cursor {cursor!r} is not one that find gave")
    return cursor or ""


def _stats_row(
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
        oldest_due_at=optional_moment_of(oldest_due_at),
    )


def _count(field: bytes, number: bytes) -> Count:
    minute, queue, event = field.decode().split(",")
    minute_at = moment_of(int(minute))
    return Count(minute_at=minute_at, queue=json.loads(queue), event=Event(event), number=int(number))
