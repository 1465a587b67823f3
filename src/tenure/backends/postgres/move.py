"""Operator actions on jobs: move, delete, purge."""

from collections.abc import Callable, Sequence
from functools import partial
from typing import NamedTuple

from tenure.backends.postgres.conflict_retry import Conflict, retry_on_conflict
from tenure.backends.postgres.database import Database, Execute
from tenure.backends.postgres.encoding import array, microseconds, optional_array
from tenure.backends.postgres.pipeline import BoundQuery
from tenure.core.job import State
from tenure.core.operations import Move, Moved, Purge, Refusal
from tenure.core.transitions import DELETABLE, refusal


class FoundJob(NamedTuple):
    """The state of a job before the change, and whether the statement changed the job."""

    state: State
    cancel_requested: bool
    is_key_taken: bool
    has_changed: bool


RefusalCheck = Callable[[FoundJob], Refusal | None]
"""Return why a job must not be changed, or None if it may be."""
NextState = Callable[[State], State | None]
"""Return the new state of a job changed from the given state, None if the job is deleted."""


def move(database: Database, ids: Sequence[str], move: Move, note: str) -> list[Moved]:
    def refused(job: FoundJob) -> Refusal | None:
        refused = refusal(move, job.state, cancel_requested=job.cancel_requested)
        return refused or (Refusal.KEY_TAKEN if job.is_key_taken else None)

    values = {"ids": _unique_ids(ids), "note": note, "now": database.now()}
    return _change(
        database, ids, BoundQuery(database.statements["move"][move.value], values), refused, partial(_state_after, move)
    )


def delete(database: Database, ids: Sequence[str]) -> list[Moved]:
    def refused(job: FoundJob) -> Refusal | None:
        return None if job.state in DELETABLE else Refusal.STATE

    step = BoundQuery(database.statements["purge"]["delete"], {"ids": _unique_ids(ids)})
    return _change(database, ids, step, refused, lambda _: None)


def purge(database: Database, purge: Purge) -> int:
    values = {
        "queues": optional_array(purge.queues),
        "states": array(sorted(purge.states)),
        "older_than": microseconds(purge.older_than),
        "limit": purge.limit,
        "now": database.now(),
    }
    (number,) = database.execute([BoundQuery(database.statements["purge"]["purge"], values)], may_repeat=False)
    return int(number)


def _change(
    database: Database, ids: Sequence[str], query: BoundQuery, check: RefusalCheck, next_state: NextState
) -> list[Moved]:
    """Change every job whose state allows it, and return the result of each."""
    if not ids:
        return []
    names = {"ids": _unique_ids(ids)}
    locks = [
        BoundQuery(database.statements["settle"]["lock"], names),
        BoundQuery(database.statements["move"]["lock finished"], names),
    ]

    def change(execute: Execute) -> list[Moved]:
        *_, rows = execute([*locks, query])
        found = {id: FoundJob(State(state), *rest) for id, state, *rest in rows}
        return [_moved(found, id, check, next_state) for id in ids]

    return retry_on_conflict(lambda: database.transact(change, may_repeat=False))


def _moved(found: dict[str, FoundJob], id: str, check: RefusalCheck, next_state: NextState) -> Moved:
    job = found.get(id)
    if job is None:
        return Moved(id=id, state=None, refusal=Refusal.UNKNOWN)
    if not job.has_changed:
        refusal = check(job)
        if refusal is None:
            raise Conflict
        return Moved(id=id, state=job.state, refusal=refusal)
    # If the request names the job again, the second result is based on the new state.
    del found[id]
    if (state := next_state(job.state)) is not None:
        found[id] = FoundJob(state, cancel_requested=True, is_key_taken=False, has_changed=False)
    return Moved(id=id, state=state)


def _state_after(move: Move, state: State) -> State:
    if move is Move.RETRY:
        return State.QUEUED
    return State.RUNNING if state is State.RUNNING else State.CANCELLED


def _unique_ids(ids: Sequence[str]) -> str:
    return array(dict.fromkeys(ids))
