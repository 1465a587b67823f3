"""What is done to jobs by hand: move, delete, purge."""

from collections.abc import Callable, Sequence
from functools import partial
from typing import NamedTuple

from tenure.backends.postgres.conflict_retry import SomebodyElseWasFirst, decided
from tenure.backends.postgres.database import Ask, Database
from tenure.backends.postgres.encoding import array, duration, optional_array
from tenure.backends.postgres.pipeline import Step
from tenure.core.job import State
from tenure.core.operations import Move, Moved, Purge, Refusal
from tenure.core.transitions import DELETABLE, refusal


class Found(NamedTuple):
    """A job as it was found, and whether it is another now."""

    state: State
    cancel_requested: bool
    is_key_taken: bool
    has_changed: bool


Refused = Callable[[Found], Refusal | None]
"""Tells why a job could not be changed, None if it could."""
After = Callable[[State], State | None]
"""Tells in which state a job is that was changed in this one, None if it is gone."""


def move(database: Database, ids: Sequence[str], move: Move, note: str) -> list[Moved]:
    def refused(job: Found) -> Refusal | None:
        refused = refusal(move, job.state, cancel_requested=job.cancel_requested)
        return refused or (Refusal.KEY_TAKEN if job.is_key_taken else None)

    values = {"ids": _each_once(ids), "note": note, "now": database.now()}
    return _change(database, ids, Step(database.statements["move"][move.value], values), refused, partial(_after, move))


def delete(database: Database, ids: Sequence[str]) -> list[Moved]:
    def refused(job: Found) -> Refusal | None:
        return None if job.state in DELETABLE else Refusal.STATE

    step = Step(database.statements["forget"]["delete"], {"ids": _each_once(ids)})
    return _change(database, ids, step, refused, lambda _: None)


def purge(database: Database, purge: Purge) -> int:
    values = {
        "queues": optional_array(purge.queues),
        "states": array(sorted(purge.states)),
        "older_than": duration(purge.older_than),
        "limit": purge.limit,
        "now": database.now(),
    }
    (number,) = database.ask([Step(database.statements["forget"]["purge"], values)], may_repeat=False)
    return int(number)


def _change(database: Database, ids: Sequence[str], step: Step, refused: Refused, after: After) -> list[Moved]:
    """Change these jobs, each if it may be changed, and tell what became of it."""
    if not ids:
        return []
    names = {"ids": _each_once(ids)}
    locks = [
        Step(database.statements["settle"]["lock"], names),
        Step(database.statements["move"]["lock finished"], names),
    ]

    def change(ask: Ask) -> list[Moved]:
        *_, rows = ask([*locks, step])
        found = {id: Found(State(state), *rest) for id, state, *rest in rows}
        return [_answer(found, id, refused, after) for id in ids]

    return decided(lambda: database.talk(change, may_repeat=False))


def _answer(found: dict[str, Found], id: str, refused: Refused, after: After) -> Moved:
    job = found.get(id)
    if job is None:
        return Moved(id=id, state=None, refusal=Refusal.UNKNOWN)
    if not job.has_changed:
        refusal = refused(job)
        if refusal is None:
            raise SomebodyElseWasFirst
        return Moved(id=id, state=job.state, refusal=refusal)
    # Named again, it is found as it is now.
    del found[id]
    if (state := after(job.state)) is not None:
        found[id] = Found(state, cancel_requested=True, is_key_taken=False, has_changed=False)
    return Moved(id=id, state=state)


def _after(move: Move, state: State) -> State:
    if move is Move.RETRY:
        return State.QUEUED
    return State.RUNNING if state is State.RUNNING else State.CANCELLED


def _each_once(ids: Sequence[str]) -> str:
    return array(dict.fromkeys(ids))
