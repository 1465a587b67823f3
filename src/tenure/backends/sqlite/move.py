"""What is done to jobs by hand: move, delete, purge."""

import json
import sqlite3
from collections.abc import Sequence
from typing import NamedTuple

from tenure.backends.shared.sql_files import statements
from tenure.backends.sqlite.enqueue import key_holder
from tenure.backends.sqlite.merge import first_of
from tenure.backends.sqlite.rows import names_text
from tenure.backends.sqlite.settle import remember
from tenure.backends.sqlite.timestamps import duration
from tenure.backends.sqlite.write_transaction import Write
from tenure.core.job import Outcome, State
from tenure.core.operations import Event, Move, Moved, Purge, Refusal
from tenure.core.transitions import DELETABLE, refusal

MOVE = statements(__package__, "move")
FORGET = statements(__package__, "forget")


class Movable(NamedTuple):
    """What a move depends on."""

    sequence: int
    queue: str
    type: str
    key: str | None
    state: str
    is_due: int
    fence: int
    cancel_requested: int
    endings: int

    @property
    def column(self) -> str:
        return self.state if self.state != State.QUEUED else "due" if self.is_due else "scheduled"


def move(write: Write, id: str, move: Move, note: str) -> Moved:
    job = _job(write, id)
    if job is None:
        return Moved(id=id, state=None, refusal=Refusal.UNKNOWN)
    state = State(job.state)
    refused = refusal(move, state, cancel_requested=bool(job.cancel_requested))
    if refused is None and move is Move.RETRY and key_holder(write, job.queue, job.key) is not None:
        refused = Refusal.KEY_TAKEN
    if refused is not None:
        return Moved(id=id, state=state, refusal=refused)
    after = _move(write, job, move)
    remember(
        write, sequence=job.sequence, number=job.endings + 1, fence=job.fence, outcome=Outcome.OPERATOR, error=note
    )
    write.count(job.queue, Event.OPERATOR)
    return Moved(id=id, state=after)


def delete(write: Write, id: str) -> Moved:
    job = _job(write, id)
    if job is None:
        return Moved(id=id, state=None, refusal=Refusal.UNKNOWN)
    if job.state not in DELETABLE:
        return Moved(id=id, state=State(job.state), refusal=Refusal.STATE)
    _forget(write, [(job.sequence, job.type, job.queue, job.state)])
    return Moved(id=id, state=None)


def purge(write: Write, purge: Purge) -> int:
    before = write.now - duration(purge.older_than)

    def open_line(queue: str, state: str) -> sqlite3.Cursor:
        values = {"queue": queue, "state": state, "before": before, "limit": purge.limit}
        return write.execute(FORGET["finished"], values)

    values = {"queues": names_text(purge.queues), "states": json.dumps(sorted(purge.states)), "before": before}
    rows = first_of(write.all(FORGET["finished lines"], values), open_line, purge.limit)
    _forget(write, [(sequence, type, queue, state) for _, sequence, type, queue, state in rows])
    return len(rows)


def _job(write: Write, id: str) -> Movable | None:
    found = write.one(MOVE["job"], {"id": id})
    return None if found is None else Movable._make(found)


def _move(write: Write, job: Movable, move: Move) -> State:
    """Move a job that may be moved; return where it is then."""
    values = {"sequence": job.sequence, "now": write.now}
    lane = job.queue, job.type
    if move is Move.RETRY:
        write.execute(MOVE["retry"], values)
        write.move(lane, job.column, "due")
        return State.QUEUED
    if job.state == State.RUNNING:
        write.execute(MOVE["ask to cancel"], values)
        return State.RUNNING
    write.execute(MOVE["cancel"], values)
    write.move(lane, job.column, State.CANCELLED)
    return State.CANCELLED


def _forget(write: Write, jobs: Sequence[tuple[int, str, str, str]]) -> None:
    values = [{"sequence": sequence} for sequence, _, _, _ in jobs]
    for table in ("job", "payload", "history"):
        write.execute_many(FORGET[table], values)
    for _, type, queue, state in jobs:
        write.move((queue, type), state, None)
