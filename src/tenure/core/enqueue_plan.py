"""Decide which jobs of an enqueue request are new, and which are stored already."""

from collections.abc import Callable, Sequence

from tenure.core.job import JobRecord
from tenure.core.operations import Enqueued
from tenure.errors import KeyTaken

FindKeyHolder = Callable[[str, str], str | None]
"""Returns the id of the live job of a queue that holds a key, or None."""


def plan_enqueue(
    records: Sequence[JobRecord], stored: set[str], find_holder: FindKeyHolder
) -> tuple[list[JobRecord], list[Enqueued]]:
    """Return the records to store, and the results of all records, in the order of the request.

    `stored` holds the ids that the store already has. A record whose id is stored, or occurs earlier in the
    request, is the same job. A record whose key is held by a live job, or by an earlier record, resolves to that job;
    with `on_conflict="raise"` it raises `KeyTaken`, and the caller stores nothing.
    """
    known_ids, keys = set(stored), dict[tuple[str, str], str]()
    new: list[JobRecord] = []
    results: list[Enqueued] = []
    for record in records:
        if record.id in known_ids:
            results.append(Enqueued(id=record.id, created=False))
            continue
        if record.key is not None:
            holder = keys.get((record.queue, record.key)) or find_holder(record.queue, record.key)
            if holder is not None and record.on_conflict == "raise":
                raise KeyTaken(key=record.key, queue=record.queue, id=holder)
            if holder is not None:
                results.append(Enqueued(id=holder, created=False))
                continue
            keys[record.queue, record.key] = record.id
        known_ids.add(record.id)
        new.append(record)
        results.append(Enqueued(id=record.id, created=True))
    return new, results
