"""Retry and cancel rows on behalf of an operator."""

from collections.abc import Sequence
from typing import NamedTuple

from psycopg.errors import ForeignKeyViolation

from tenure.backends.postgres.conflict_retry import Conflict, retry_on_conflict
from tenure.backends.postgres.database import Execute
from tenure.backends.tables.postgres.bound_table import BoundTable
from tenure.backends.tables.postgres.params import retry_values
from tenure.core.job import State
from tenure.core.operations import Move, Moved, Refusal
from tenure.core.transitions import refusal
from tenure.errors import ConfigurationError


class FoundRow(NamedTuple):
    """The state of a row before the move, and whether the move changed it."""

    state: State
    cancel_requested: bool
    has_moved: bool


def move(bound_table: BoundTable, ids: Sequence[str], move: Move, note: str) -> list[Moved]:
    keys = dict.fromkeys(key for id in ids if (key := bound_table.keys.key_of(id)) is not None)
    values = {"note": note, **bound_table.keys.values(keys), **retry_values(bound_table.spec)}
    query = bound_table.build_query("move", move.value, values)

    def change(execute: Execute) -> list[Moved]:
        (rows,) = execute([query])
        found = {bound_table.keys.id_of(key): FoundRow(State(state), *rest) for key, state, *rest in rows}
        return [_moved(found, id, move) for id in ids]

    def attempt() -> list[Moved]:
        try:
            return bound_table.transact(change)
        except ConfigurationError as exc:
            # A cancel inserts sidecar rows, and the foreign key rejects one whose row was deleted meanwhile.
            if move is Move.CANCEL and isinstance(exc.__cause__, ForeignKeyViolation):
                raise Conflict from exc
            raise

    return retry_on_conflict(attempt) if ids else []


def _moved(found: dict[str, FoundRow], id: str, move: Move) -> Moved:
    row = found.get(id)
    if row is None:
        return Moved(id=id, state=None, refusal=Refusal.UNKNOWN)
    if not row.has_moved:
        refused = refusal(move, row.state, cancel_requested=row.cancel_requested)
        if refused is None:
            raise Conflict
        return Moved(id=id, state=row.state, refusal=refused)
    state = _state_after(move, row.state)
    # If the caller passes the same id twice, the second move sees the new state.
    found[id] = FoundRow(state, cancel_requested=True, has_moved=False)
    return Moved(id=id, state=state)


def _state_after(move: Move, state: State) -> State:
    if move is Move.RETRY:
        return State.QUEUED
    return State.RUNNING if state is State.RUNNING else State.CANCELLED
