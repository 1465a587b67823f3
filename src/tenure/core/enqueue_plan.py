"""What becomes of jobs that are enqueued, given what is stored: which are new, and which are there already."""

from collections.abc import Callable, Sequence

from tenure.core.job import Entry
from tenure.core.operations import Enqueued
from tenure.errors import KeyTaken

HolderOf = Callable[[str, str], str | None]
"""Returns the live job of a queue that has a key."""


def plan(entries: Sequence[Entry], stored: set[str], holder_of: HolderOf) -> tuple[list[Entry], list[Enqueued]]:
    """Return the entries to be stored, and the answers to all, in the order asked.

    An id that is stored, or that an earlier entry has, is the same job. A key that a live job has, or an earlier entry,
    is that job; or `KeyTaken` is raised, and nothing is to be stored. `stored` are those of the ids that are.
    """
    taken, keys = set(stored), dict[tuple[str, str], str]()
    new: list[Entry] = []
    answers: list[Enqueued] = []
    for entry in entries:
        if entry.id in taken:
            answers.append(Enqueued(id=entry.id, created=False))
            continue
        if entry.key is not None:
            holder = keys.get((entry.queue, entry.key)) or holder_of(entry.queue, entry.key)
            if holder is not None and entry.on_conflict == "raise":
                raise KeyTaken(key=entry.key, queue=entry.queue, id=holder)
            if holder is not None:
                answers.append(Enqueued(id=holder, created=False))
                continue
            keys[entry.queue, entry.key] = entry.id
        taken.add(entry.id)
        new.append(entry)
        answers.append(Enqueued(id=entry.id, created=True))
    return new, answers
