"""Enqueue."""

import json
from collections.abc import Sequence

from tenure.backends.shared.sql_files import statements
from tenure.backends.sqlite.timestamps import duration, microseconds
from tenure.backends.sqlite.write_transaction import Write
from tenure.core.enqueue_plan import plan
from tenure.core.job import Entry, State
from tenure.core.operations import Enqueued, Event

ENQUEUE = statements(__package__, "enqueue")


def enqueue(write: Write, entries: Sequence[Entry]) -> list[Enqueued]:
    new, answers = _plan(write, entries)
    _store(write, new)
    return answers


def key_holder(write: Write, queue: str, key: str | None) -> str | None:
    """Return the id of the live job of the queue that has this key."""
    found = None if key is None else write.one(ENQUEUE["holder of the key"], {"queue": queue, "key": key})
    return None if found is None else str(found[0])


def _plan(write: Write, entries: Sequence[Entry]) -> tuple[list[Entry], list[Enqueued]]:
    """Decide what becomes of each entry, and change nothing yet: a later one may refuse them all."""
    ids = json.dumps([entry.id for entry in entries])
    stored = {id for (id,) in write.execute(ENQUEUE["stored"], {"ids": ids})}
    return plan(entries, stored, lambda queue, key: key_holder(write, queue, key))


def _store(write: Write, entries: Sequence[Entry]) -> None:
    (last,) = write.one(ENQUEUE["last"], {})
    jobs = []
    payloads = []
    for sequence, entry in enumerate(entries, start=last + 1):
        run_at = write.now + duration(entry.delay) if entry.run_at is None else microseconds(entry.run_at)
        column = write.column(State.QUEUED, run_at)
        jobs.append(
            {
                "sequence": sequence,
                "id": entry.id,
                "queue": entry.queue,
                "type": entry.type,
                "key": entry.key,
                "priority": entry.priority,
                "run_at": run_at,
                "is_due": int(column == "due"),
                "max_attempts": entry.max_attempts,
                "max_crashes": entry.max_crashes,
                "timeout": entry.timeout,
                "meta": json.dumps(dict(entry.meta), ensure_ascii=False) if entry.meta else None,
                "now": write.now,
            }
        )
        payloads.append({"sequence": sequence, "payload": entry.payload})
        write.move((entry.queue, entry.type), None, column)
        write.count(entry.queue, Event.ENQUEUED)
    write.execute_many(ENQUEUE["job"], jobs)
    write.execute_many(ENQUEUE["payload"], payloads)
