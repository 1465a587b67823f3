"""Claim and extend."""

import json
import sqlite3
from collections import Counter

from tenure.backends.protocol import SWEEP
from tenure.backends.shared.sql_files import statements
from tenure.backends.sqlite.lanes import ALL, by_asking, way_of
from tenure.backends.sqlite.merge import first_of
from tenure.backends.sqlite.rows import Row, job_of, names_text, progress_text
from tenure.backends.sqlite.settle import reap_expired
from tenure.backends.sqlite.timestamps import duration
from tenure.backends.sqlite.write_transaction import Write
from tenure.core.operations import Claimed, ClaimRequest, Event, Extension, Holding

LINES = by_asking("claim")
CLAIM = LINES[ALL]
EXTEND = statements(__package__, "extend")


def claim(write: Write, request: ClaimRequest) -> Claimed:
    # The lines are found by the numbers of their lanes, so these have to be true.
    write.flush()
    values = {"token": request.token, "now": write.now}
    holds_some, some_ran_out, some_are_scheduled = write.one(CLAIM["what is to be done first"], values)
    if holds_some:
        return Claimed(jobs=[job_of(row) for row in write.all(CLAIM["held"], values)])
    if some_ran_out:
        reap_expired(write, SWEEP)
        write.flush()
    if some_are_scheduled:
        _let_in(write, request)
    return Claimed(jobs=[job_of(row) for row in _take(write, request)])


def extend(write: Write, extension: Extension) -> Holding:
    hold = extension.hold
    values = {
        "id": hold.id,
        "fence": hold.fence,
        "token": hold.token,
        "leased_until": write.now + duration(extension.lease),
        "progress": None if extension.progress is None else progress_text(extension.progress),
    }
    held = write.all(EXTEND["extend"], values)
    if not held:
        return Holding.LOST
    ((cancel_requested,),) = held
    return Holding.CANCEL_REQUESTED if cancel_requested else Holding.HELD


def _let_in(write: Write, request: ClaimRequest) -> None:
    """Count what came due among the due, the oldest first."""
    rows = _first_of(write, "lines that came due", "came due", request, SWEEP)
    write.execute_many(CLAIM["let in"], [{"sequence": sequence} for _, sequence, _, _ in rows])
    for lane, number in Counter((queue, type) for *_, queue, type in rows).items():
        write.move(lane, "scheduled", "due", number)
    write.flush()


def _take(write: Write, request: ClaimRequest) -> list[Row]:
    rows = _first_of(write, "due lines", "due", request, request.limit)
    values = {
        "sequences": json.dumps([sequence for _, _, sequence, _, _ in rows]),
        "token": request.token,
        "worker": request.worker,
        "leased_until": write.now + duration(request.lease),
        "now": write.now,
    }
    taken = {row[-1]: row for row in write.all(CLAIM["take"], values)} if rows else {}
    for (queue, type), number in Counter((queue, type) for *_, queue, type in rows).items():
        write.move((queue, type), "due", "running", number)
        write.count(queue, Event.CLAIMED, number)
    return [taken[sequence] for _, _, sequence, _, _ in rows]


def _first_of(write: Write, heads: str, line: str, request: ClaimRequest, limit: int) -> list[Row]:
    statement = LINES[way_of(request.queues, request.types)][heads]
    asked = {"queues": names_text(request.queues), "types": names_text(request.types), "now": write.now}

    def open_line(queue: str, type: str) -> sqlite3.Cursor:
        return write.execute(CLAIM[line], {"queue": queue, "type": type, "now": write.now, "limit": limit})

    return first_of(write.all(statement, asked), open_line, limit)
