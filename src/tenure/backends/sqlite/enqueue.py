"""Enqueue."""

import json
from collections.abc import Sequence

from tenure.backends.shared.sql_files import statements
from tenure.backends.sqlite.timestamps import duration, to_microseconds
from tenure.backends.sqlite.write_transaction import WriteTransaction
from tenure.core.enqueue_plan import plan_enqueue
from tenure.core.job import JobRecord, State
from tenure.core.operations import Enqueued, Event

ENQUEUE = statements(__package__, "enqueue")


def enqueue(write: WriteTransaction, records: Sequence[JobRecord]) -> list[Enqueued]:
    new, results = _plan(write, records)
    _store(write, new)
    return results


def key_holder(write: WriteTransaction, queue: str, key: str | None) -> str | None:
    """Return the id of the live job of the queue with this key."""
    found = None if key is None else write.fetch_one(ENQUEUE["holder of the key"], {"queue": queue, "key": key})
    return None if found is None else str(found[0])


def _plan(write: WriteTransaction, records: Sequence[JobRecord]) -> tuple[list[JobRecord], list[Enqueued]]:
    """Decide what to do with the records, without changing anything: a later record may reject the whole request."""
    ids = json.dumps([record.id for record in records])
    stored = {id for (id,) in write.execute(ENQUEUE["stored"], {"ids": ids})}
    return plan_enqueue(records, stored, lambda queue, key: key_holder(write, queue, key))


def _store(write: WriteTransaction, records: Sequence[JobRecord]) -> None:
    (last,) = write.fetch_one(ENQUEUE["last"], {})
    jobs = []
    payloads = []
    for sequence, record in enumerate(records, start=last + 1):
        run_at = write.now + duration(record.delay) if record.run_at is None else to_microseconds(record.run_at)
        column = write.counter_name(State.QUEUED, run_at)
        jobs.append(
            {
                "sequence": sequence,
                "id": record.id,
                "queue": record.queue,
                "type": record.type,
                "key": record.key,
                "priority": record.priority,
                "run_at": run_at,
                "is_due": int(column == "due"),
                "max_attempts": record.max_attempts,
                "max_crashes": record.max_crashes,
                "timeout": record.timeout,
                "meta": json.dumps(dict(record.meta), ensure_ascii=False) if record.meta else None,
                "now": write.now,
            }
        )
        payloads.append({"sequence": sequence, "payload": record.payload})
        write.move_count((record.queue, record.type), None, column)
        write.count_event(record.queue, Event.ENQUEUED)
    write.execute_many(ENQUEUE["job"], jobs)
    write.execute_many(ENQUEUE["payload"], payloads)
