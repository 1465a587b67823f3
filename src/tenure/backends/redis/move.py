"""Operator actions: move, delete and purge jobs; pause and resume queues."""

from collections.abc import Sequence

from tenure.backends.redis.encoding import (
    encode_duration,
    encode_json,
    encode_list,
    encode_names,
    encode_timestamp,
    quote_name,
)
from tenure.backends.redis.rows import DIGITS, STATES
from tenure.backends.redis.script import script
from tenure.backends.redis.server import Server
from tenure.core.job import State
from tenure.core.operations import Move, Moved, Purge, Refusal

REFUSALS = (None, Refusal.UNKNOWN, Refusal.STATE, Refusal.KEY_TAKEN, Refusal.CANCEL_REQUESTED)
"""Indexed by the digit in the response of `move.lua`."""
UNKNOWN_JOB = "-"


def move(server: Server, ids: Sequence[str], move: Move, note: str) -> list[Moved]:
    arguments = [encode_timestamp(server.now()), move.value, encode_json(note), *encode_list(ids)]
    response = server.run(script("move"), arguments, may_repeat=False).decode()
    return [
        Moved(id=id, state=_decode_state(state), refusal=REFUSALS[int(refusal)])
        for id, state, refusal in zip(ids, response[::2], response[1::2], strict=True)
    ]


def delete(server: Server, ids: Sequence[str]) -> list[Moved]:
    response = server.run(
        script("delete"), [encode_timestamp(server.now()), *encode_list(ids)], may_repeat=False
    ).decode()
    return [
        _deletion_result(id, _decode_state(state), is_deleted == "1")
        for id, state, is_deleted in zip(ids, response[::2], response[1::2], strict=True)
    ]


def purge(server: Server, purge: Purge) -> int:
    arguments = [
        encode_timestamp(server.now()),
        encode_duration(purge.older_than),
        purge.limit,
        *encode_list(sorted(DIGITS[state] for state in purge.states)),
        *encode_names(purge.queues),
    ]
    return int(server.run(script("purge"), arguments, may_repeat=False))


def pause(server: Server, queues: Sequence[str]) -> None:
    if queues:
        server.run(script("pause"), [encode_timestamp(server.now()), *encode_list(map(quote_name, queues))])


def resume(server: Server, queues: Sequence[str]) -> None:
    if queues:
        server.run(script("resume"), [encode_timestamp(server.now()), *encode_list(map(quote_name, queues))])


def _decode_state(digit: str) -> State | None:
    return None if digit == UNKNOWN_JOB else STATES[int(digit)]


def _deletion_result(id: str, state: State | None, is_deleted: bool) -> Moved:  # noqa: FBT001
    if is_deleted:
        return Moved(id=id, state=None)
    return Moved(id=id, state=state, refusal=Refusal.UNKNOWN if state is None else Refusal.STATE)
