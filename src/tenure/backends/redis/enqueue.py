"""Enqueue jobs, directly or for the slots of a schedule."""

from collections.abc import Sequence

from tenure.backends.redis.encoding import (
    Argument,
    decode_timestamp,
    encode_duration,
    encode_json,
    encode_list,
    encode_timestamp,
    quote_name,
    quote_optional_name,
)
from tenure.backends.redis.rows import rank_of
from tenure.backends.redis.script import script
from tenure.backends.redis.server import Server
from tenure.core.job import JobRecord
from tenure.core.operations import Enqueued, Scheduled, Slot
from tenure.errors import KeyTaken

KEY_TAKEN = -1
PADDING_LENGTHS = 32


def enqueue(server: Server, records: Sequence[JobRecord]) -> list[Enqueued]:
    numbers = _number_pairs(records)
    arguments: list[Argument] = [encode_timestamp(server.now()), *encode_list(numbers), len(records)]
    for position, record in enumerate(records):
        arguments += _encode_job(record, numbers, position)
    others = server.run(script("enqueue"), arguments)
    if others and others[0] == KEY_TAKEN:
        raise _key_taken_error(records[others[1] - 1], others[2])
    stored = dict(zip(others[::2], others[1::2], strict=True))
    return [
        Enqueued(id=stored[at].decode(), created=False) if at in stored else Enqueued(id=record.id, created=True)
        for at, record in enumerate(records, start=1)
    ]


def schedule(server: Server, name: str, slots: Sequence[Slot]) -> Scheduled:
    slots = sorted(slots, key=lambda slot: slot.at)
    numbers = _number_pairs([slot.record for slot in slots])
    arguments: list[Argument] = [encode_timestamp(server.now()), quote_name(name), *encode_list(numbers), len(slots)]
    for position, slot in enumerate(slots):
        arguments += [encode_timestamp(slot.at), *_encode_job(slot.record, numbers, position)]
    verdict, *response = server.run(script("schedule"), arguments, may_repeat=False)
    if verdict == KEY_TAKEN:
        raise _key_taken_error(slots[response[0] - 1].record, response[1])
    now, last_at, *ids = response
    return Scheduled(
        now=decode_timestamp(int(now)), last_at=decode_timestamp(int(last_at)), ids=[id.decode() for id in ids]
    )


def _number_pairs(records: Sequence[JobRecord]) -> dict[str, int]:
    """Number the distinct pairs of queue and type, from 1."""
    pairs = dict.fromkeys((record.queue, record.type) for record in records)
    return {_encode_pair(*pair): number for number, pair in enumerate(pairs, start=1)}


def _encode_pair(queue: str, type: str) -> str:
    return f"{quote_name(queue)},{quote_name(type)}"


def _encode_job(record: JobRecord, numbers: dict[str, int], position: int) -> tuple[str, str, str]:
    """Return the id, the fields that the scripts read, and the content, which the scripts only store."""
    # Lua hashes a long string by its length and a few characters. The jobs of a batch are much alike, so padding
    # varies the length to avoid collisions.
    space = " " * (position % PADDING_LENGTHS)
    queue, type = quote_name(record.queue), quote_name(record.type)
    most = "null" if record.max_attempts is None else record.max_attempts
    timeout = "null" if record.timeout is None else record.timeout
    meta = encode_json(dict(record.meta)) if record.meta else "{}"
    known = (
        f"{numbers[f'{queue},{type}']},{rank_of(record.priority)},{encode_timestamp(record.run_at)},"
        f"{encode_duration(record.delay)},"
        f"{most},{record.max_crashes},{quote_optional_name(record.key)},{record.on_conflict}"
    )
    return record.id, known, f"{encode_json(record.id)},{type},{queue},{timeout},{meta},{record.payload}{space}"


def _key_taken_error(record: JobRecord, holder: bytes) -> KeyTaken:
    return KeyTaken(key=str(record.key), queue=record.queue, id=holder.decode())
