"""What operators do to jobs: move, delete, purge, pause, resume."""

from collections.abc import Sequence

from tenure.backends.redis.encoding import duration, json_text, listed, moment, names, quoted
from tenure.backends.redis.rows import DIGITS, STATES
from tenure.backends.redis.script import script
from tenure.backends.redis.server import Server
from tenure.core.job import State
from tenure.core.operations import Move, Moved, Purge, Refusal

REFUSALS = (None, Refusal.UNKNOWN, Refusal.STATE, Refusal.KEY_TAKEN, Refusal.ASKED_BEFORE)
"""By the digit that stands for each."""
NOT_THERE = "-"


def move(server: Server, ids: Sequence[str], move: Move, note: str) -> list[Moved]:
    arguments = [moment(server.now()), move.value, json_text(note), *listed(ids)]
    answer = server.run(script("move"), arguments, may_repeat=False).decode()
    return [
        Moved(id=id, state=_state(state), refusal=REFUSALS[int(refusal)])
        for id, state, refusal in zip(ids, answer[::2], answer[1::2], strict=True)
    ]


def delete(server: Server, ids: Sequence[str]) -> list[Moved]:
    answer = server.run(script("delete"), [moment(server.now()), *listed(ids)], may_repeat=False).decode()
    return [
        _deleted(id, _state(state), has_gone == "1")
        for id, state, has_gone in zip(ids, answer[::2], answer[1::2], strict=True)
    ]


def purge(server: Server, purge: Purge) -> int:
    arguments = [
        moment(server.now()),
        duration(purge.older_than),
        purge.limit,
        *listed(sorted(DIGITS[state] for state in purge.states)),
        *names(purge.queues),
    ]
    return int(server.run(script("purge"), arguments, may_repeat=False))


def pause(server: Server, queues: Sequence[str]) -> None:
    if queues:
        server.run(script("pause"), [moment(server.now()), *listed(map(quoted, queues))])


def resume(server: Server, queues: Sequence[str]) -> None:
    if queues:
        server.run(script("resume"), [moment(server.now()), *listed(map(quoted, queues))])


def _state(digit: str) -> State | None:
    return None if digit == NOT_THERE else STATES[int(digit)]


def _deleted(id: str, state: State | None, has_gone: bool) -> Moved:  # noqa: FBT001
    if has_gone:
        return Moved(id=id, state=None)
    return Moved(id=id, state=state, refusal=Refusal.UNKNOWN if state is None else Refusal.STATE)
