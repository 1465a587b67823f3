"""Jobs on their way in: enqueue, schedule."""

from collections.abc import Sequence

from tenure.backends.redis.encoding import (
    Argument,
    duration,
    json_text,
    listed,
    moment,
    moment_of,
    optional_quoted,
    quoted,
)
from tenure.backends.redis.rows import rank_of
from tenure.backends.redis.script import script
from tenure.backends.redis.server import Server
from tenure.core.job import Entry
from tenure.core.operations import Enqueued, Scheduled, Slot
from tenure.errors import KeyTaken

REFUSED = -1
LENGTHS = 32


def enqueue(server: Server, entries: Sequence[Entry]) -> list[Enqueued]:
    numbers = _numbered(entries)
    arguments: list[Argument] = [moment(server.now()), *listed(numbers), len(entries)]
    for position, entry in enumerate(entries):
        arguments += _written(entry, numbers, position)
    others = server.run(script("enqueue"), arguments)
    if others and others[0] == REFUSED:
        raise _taken(entries[others[1] - 1], others[2])
    stored = dict(zip(others[::2], others[1::2], strict=True))
    return [
        Enqueued(id=stored[at].decode(), created=False) if at in stored else Enqueued(id=entry.id, created=True)
        for at, entry in enumerate(entries, start=1)
    ]


def schedule(server: Server, name: str, slots: Sequence[Slot]) -> Scheduled:
    slots = sorted(slots, key=lambda slot: slot.at)
    numbers = _numbered([slot.entry for slot in slots])
    arguments: list[Argument] = [moment(server.now()), quoted(name), *listed(numbers), len(slots)]
    for position, slot in enumerate(slots):
        arguments += [moment(slot.at), *_written(slot.entry, numbers, position)]
    verdict, *answer = server.run(script("schedule"), arguments, may_repeat=False)
    if verdict == REFUSED:
        raise _taken(slots[answer[0] - 1].entry, answer[1])
    now, last_at, *ids = answer
    return Scheduled(now=moment_of(int(now)), last_at=moment_of(int(last_at)), ids=[id.decode() for id in ids])


def _numbered(entries: Sequence[Entry]) -> dict[str, int]:
    """Return the queues and types of these jobs, each pair once, with its number."""
    pairs = dict.fromkeys((entry.queue, entry.type) for entry in entries)
    return {_pair(*pair): number for number, pair in enumerate(pairs, start=1)}


def _pair(queue: str, type: str) -> str:
    return f"{quoted(queue)},{quoted(type)}"


def _written(entry: Entry, numbers: dict[str, int], position: int) -> tuple[str, str, str]:
    """Return the id, what the scripts have to know of the job, and its content, which they do not look into."""
    # Lua tells long texts apart by their length and few of their characters, and those of a batch are much alike.
    space = " " * (position % LENGTHS)
    queue, type = quoted(entry.queue), quoted(entry.type)
    most = "null" if entry.max_attempts is None else entry.max_attempts
    timeout = "null" if entry.timeout is None else entry.timeout
    meta = json_text(dict(entry.meta)) if entry.meta else "{}"
    known = (
        f"{numbers[f'{queue},{type}']},{rank_of(entry.priority)},{moment(entry.run_at)},{duration(entry.delay)},"
        f"{most},{entry.max_crashes},{optional_quoted(entry.key)},{entry.on_conflict}"
    )
    return entry.id, known, f"{json_text(entry.id)},{type},{queue},{timeout},{meta},{entry.payload}{space}"


def _taken(entry: Entry, holder: bytes) -> KeyTaken:
    return KeyTaken(key=str(entry.key), queue=entry.queue, id=holder.decode())
