"""What is done to rows by hand."""

from collections.abc import Sequence
from typing import NamedTuple

from tenure.backends.postgres.conflict_retry import SomebodyElseWasFirst, decided
from tenure.backends.postgres.database import Ask
from tenure.backends.tables.postgres.bound_table import Place
from tenure.backends.tables.postgres.params import retry_values
from tenure.core.job import State
from tenure.core.operations import Move, Moved, Refusal
from tenure.core.transitions import refusal


class Found(NamedTuple):
    """A row as it was found, and whether it is another now."""

    state: State
    cancel_requested: bool
    has_moved: bool


def move(place: Place, ids: Sequence[str], move: Move, note: str) -> list[Moved]:
    keys = dict.fromkeys(key for id in ids if (key := place.keys.key_of(id)) is not None)
    values = {"note": note, **place.keys.values(keys), **retry_values(place.spec)}
    step = place.step("move", move.value, values)

    def change(ask: Ask) -> list[Moved]:
        (rows,) = ask([step])
        found = {place.keys.id_of(key): Found(State(state), *rest) for key, state, *rest in rows}
        return [_answer(found, id, move) for id in ids]

    return decided(lambda: place.talk(change)) if ids else []


def _answer(found: dict[str, Found], id: str, move: Move) -> Moved:
    row = found.get(id)
    if row is None:
        return Moved(id=id, state=None, refusal=Refusal.UNKNOWN)
    if not row.has_moved:
        refused = refusal(move, row.state, cancel_requested=row.cancel_requested)
        if refused is None:
            raise SomebodyElseWasFirst
        return Moved(id=id, state=row.state, refusal=refused)
    state = _after(move, row.state)
    # Named again, it is found as it is now.
    found[id] = Found(state, cancel_requested=True, has_moved=False)
    return Moved(id=id, state=state)


def _after(move: Move, state: State) -> State:
    if move is Move.RETRY:
        return State.QUEUED
    return State.RUNNING if state is State.RUNNING else State.CANCELLED
