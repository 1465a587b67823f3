"""What becomes of jobs that are enqueued, given what is stored: which are new, and which are there already."""

from collections.abc import Callable, Sequence

from tenure.core.job import JobRecord
from tenure.core.operations import Enqueued
from tenure.errors import KeyTaken

FindKeyHolder = Callable[[str, str], str | None]
"""Returns the live job of a queue that has a key."""


def plan_enqueue(
    records: Sequence[JobRecord], stored: set[str], find_holder: FindKeyHolder
) -> tuple[list[JobRecord], list[Enqueued]]:
    """Return the entries to be stored, and the answers to all, in the order asked.

    An id that is stored, or that an earlier entry has, is the same job. A key that a live job has, or an earlier entry,
    is that job; or `KeyTaken` is raised, and nothing is to be stored. `stored` are those of the ids that are.
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
