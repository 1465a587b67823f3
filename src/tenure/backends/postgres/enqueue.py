"""Enqueue jobs.

Jobs without keys are stored in one round trip: an existing id is the same job. With keys, the client reads the stored
ids and key holders, decides for each job in the order given, and writes; if a concurrent transaction stores the same id
or key meanwhile, the client decides again.
"""

import json
from collections.abc import Sequence
from datetime import datetime

from tenure.backends.postgres.conflict_retry import Conflict, retry_on_conflict
from tenure.backends.postgres.database import Database, Execute
from tenure.backends.postgres.encoding import array, integer_array, microseconds, text_array
from tenure.backends.postgres.pipeline import BoundQuery
from tenure.core.enqueue_plan import plan_enqueue
from tenure.core.job import JobRecord
from tenure.core.operations import Enqueued


def enqueue(database: Database, records: Sequence[JobRecord]) -> list[Enqueued]:
    if not records:
        return []
    ids = {record.id for record in records}
    if len(ids) == len(records) and all(record.key is None for record in records):
        return _store_all(database, records)
    return retry_on_conflict(lambda: database.transact(lambda execute: decide_and_store(database, execute, records)))


def decide_and_store(database: Database, execute: Execute, records: Sequence[JobRecord]) -> list[Enqueued]:
    """Read existing ids and keys, decide, and store the new jobs; raise `Conflict` if one was taken meanwhile."""
    statements = database.statements["enqueue"]
    keyed = [record for record in records if record.key is not None]
    # Keys first: a job stored between the two reads is then found by its id, not as the holder of its own key.
    holders, stored = execute(
        [
            BoundQuery(
                statements["holders of keys"],
                {"queues": array(record.queue for record in keyed), "keys": array(record.key for record in keyed)},
            ),
            BoundQuery(statements["stored"], {"ids": array(record.id for record in records)}),
        ]
    )
    found = {(queue, key): id for queue, key, id in holders}
    new, results = plan_enqueue(records, set(stored), lambda queue, key: found.get((queue, key)))
    if new:
        taken, twice = execute(_insert_queries(database, new))
        if taken or twice:
            raise Conflict
    return results


def _store_all(database: Database, records: Sequence[JobRecord]) -> list[Enqueued]:
    taken, twice = database.execute(_insert_queries(database, records), is_unique_checked=True)
    others = {records[number - 1].id for number in taken} | set(twice)
    return [Enqueued(id=record.id, created=record.id not in others) for record in records]


def _insert_queries(database: Database, records: Sequence[JobRecord]) -> list[BoundQuery]:
    statements, now = database.statements["enqueue"], database.now()
    ids = text_array([record.id for record in records])
    return [
        BoundQuery(statements["insert"], {"ids": ids, "now": now, **_columns(records)}),
        BoundQuery(statements["undo"], {"ids": ids, "now": now}),
    ]


def _columns(records: Sequence[JobRecord]) -> dict[str, str | datetime | None]:
    return {
        "queues": text_array([record.queue for record in records]),
        "types": text_array([record.type for record in records]),
        "keys": array(record.key for record in records),
        "priorities": integer_array(record.priority for record in records),
        "run_ats": array(record.run_at for record in records),
        "delays": integer_array(microseconds(record.delay) for record in records),
        "max_attempts": array(record.max_attempts for record in records),
        "max_crashes": integer_array(record.max_crashes for record in records),
        "timeouts": array(record.timeout for record in records),
        "metas": array(
            json.dumps(dict(record.meta), ensure_ascii=False) if record.meta else None for record in records
        ),
        "payloads": array(record.payload for record in records),
    }
