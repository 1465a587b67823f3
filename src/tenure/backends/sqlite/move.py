"""Move, delete and purge jobs."""

import json
import sqlite3
from collections.abc import Sequence
from typing import NamedTuple

from tenure.backends.shared.sql_files import statements
from tenure.backends.sqlite.enqueue import key_holder
from tenure.backends.sqlite.merge import merge_first
from tenure.backends.sqlite.rows import encode_names
from tenure.backends.sqlite.settle import record_history
from tenure.backends.sqlite.timestamps import duration
from tenure.backends.sqlite.write_transaction import WriteTransaction
from tenure.core.job import Outcome, State
from tenure.core.operations import Event, Move, Moved, Purge, Refusal
from tenure.core.transitions import DELETABLE, refusal

MOVE = statements(__package__, "move")
PURGE = statements(__package__, "purge")


class Movable(NamedTuple):
    """The columns that decide whether a job may move."""

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
    def counter_name(self) -> str:
        return self.state if self.state != State.QUEUED else "due" if self.is_due else "scheduled"


def move(write: WriteTransaction, id: str, move: Move, note: str) -> Moved:
    job = _read_job(write, id)
    if job is None:
        return Moved(id=id, state=None, refusal=Refusal.UNKNOWN)
    state = State(job.state)
    refused = refusal(move, state, cancel_requested=bool(job.cancel_requested))
    if refused is None and move is Move.RETRY and key_holder(write, job.queue, job.key) is not None:
        refused = Refusal.KEY_TAKEN
    if refused is not None:
        return Moved(id=id, state=state, refusal=refused)
    after = _apply_move(write, job, move)
    record_history(
        write, sequence=job.sequence, number=job.endings + 1, fence=job.fence, outcome=Outcome.OPERATOR, error=note
    )
    write.count_event(job.queue, Event.OPERATOR)
    return Moved(id=id, state=after)


def delete(write: WriteTransaction, id: str) -> Moved:
    job = _read_job(write, id)
    if job is None:
        return Moved(id=id, state=None, refusal=Refusal.UNKNOWN)
    if job.state not in DELETABLE:
        return Moved(id=id, state=State(job.state), refusal=Refusal.STATE)
    _delete_jobs(write, [(job.sequence, job.type, job.queue, job.state)])
    return Moved(id=id, state=None)


def purge(write: WriteTransaction, purge: Purge) -> int:
    before = write.now - duration(purge.older_than)

    def open_range(queue: str, state: str) -> sqlite3.Cursor:
        values = {"queue": queue, "state": state, "before": before, "limit": purge.limit}
        return write.execute(PURGE["finished"], values)

    values = {"queues": encode_names(purge.queues), "states": json.dumps(sorted(purge.states)), "before": before}
    rows = merge_first(write.fetch_all(PURGE["first finished"], values), open_range, purge.limit)
    _delete_jobs(write, [(sequence, type, queue, state) for _, sequence, type, queue, state in rows])
    return len(rows)


def _read_job(write: WriteTransaction, id: str) -> Movable | None:
    found = write.fetch_one(MOVE["job"], {"id": id})
    return None if found is None else Movable._make(found)


def _apply_move(write: WriteTransaction, job: Movable, move: Move) -> State:
    """Move the job, which must be movable; return the new state."""
    values = {"sequence": job.sequence, "now": write.now}
    lane = job.queue, job.type
    if move is Move.RETRY:
        write.execute(MOVE["retry"], values)
        write.move_count(lane, job.counter_name, "due")
        return State.QUEUED
    if job.state == State.RUNNING:
        write.execute(MOVE["request cancel"], values)
        return State.RUNNING
    write.execute(MOVE["cancel"], values)
    write.move_count(lane, job.counter_name, State.CANCELLED)
    return State.CANCELLED


def _delete_jobs(write: WriteTransaction, jobs: Sequence[tuple[int, str, str, str]]) -> None:
    values = [{"sequence": sequence} for sequence, _, _, _ in jobs]
    for table in ("job", "payload", "history"):
        write.execute_many(PURGE[table], values)
    for _, type, queue, state in jobs:
        write.move_count((queue, type), state, None)
