"""Enqueue.

Jobs without keys are stored in one trip: an id that is taken is the same job. Where keys are, what becomes of each
entry is decided from what is stored, in the order asked; if somebody else stores the same meanwhile it is decided anew.
"""

import json
from collections.abc import Sequence
from datetime import datetime

from tenure.backends.postgres.conflict_retry import SomebodyElseWasFirst, decided
from tenure.backends.postgres.database import Ask, Database
from tenure.backends.postgres.encoding import array, duration, numbers, texts
from tenure.backends.postgres.pipeline import Step
from tenure.core.enqueue_plan import plan
from tenure.core.job import Entry
from tenure.core.operations import Enqueued


def enqueue(database: Database, entries: Sequence[Entry]) -> list[Enqueued]:
    if not entries:
        return []
    ids = {entry.id for entry in entries}
    if len(ids) == len(entries) and all(entry.key is None for entry in entries):
        return _store_all(database, entries)
    return decided(lambda: database.talk(lambda ask: decide_and_store(database, ask, entries)))


def decide_and_store(database: Database, ask: Ask, entries: Sequence[Entry]) -> list[Enqueued]:
    """Look up what is there, decide, and store what is new; raise if it is taken by then."""
    statements = database.statements["enqueue"]
    keyed = [entry for entry in entries if entry.key is not None]
    # Keys first: a job that is stored in between is then found by its id, not as one that has taken its own key.
    holders, stored = ask(
        [
            Step(
                statements["holders of keys"],
                {"queues": array(entry.queue for entry in keyed), "keys": array(entry.key for entry in keyed)},
            ),
            Step(statements["stored"], {"ids": array(entry.id for entry in entries)}),
        ]
    )
    found = {(queue, key): id for queue, key, id in holders}
    new, answers = plan(entries, set(stored), lambda queue, key: found.get((queue, key)))
    if new:
        taken, twice = ask(_steps(database, new))
        if taken or twice:
            raise SomebodyElseWasFirst
    return answers


def _store_all(database: Database, entries: Sequence[Entry]) -> list[Enqueued]:
    taken, twice = database.ask(_steps(database, entries))
    others = {entries[number - 1].id for number in taken} | set(twice)
    return [Enqueued(id=entry.id, created=entry.id not in others) for entry in entries]


def _steps(database: Database, entries: Sequence[Entry]) -> list[Step]:
    statements, now = database.statements["enqueue"], database.now()
    ids = texts([entry.id for entry in entries])
    return [
        Step(statements["insert"], {"ids": ids, "now": now, **_columns(entries)}),
        Step(statements["take back"], {"ids": ids, "now": now}),
    ]


def _columns(entries: Sequence[Entry]) -> dict[str, str | datetime | None]:
    return {
        "queues": texts([entry.queue for entry in entries]),
        "types": texts([entry.type for entry in entries]),
        "keys": array(entry.key for entry in entries),
        "priorities": numbers(entry.priority for entry in entries),
        "run_ats": array(entry.run_at for entry in entries),
        "delays": numbers(duration(entry.delay) for entry in entries),
        "max_attempts": array(entry.max_attempts for entry in entries),
        "max_crashes": numbers(entry.max_crashes for entry in entries),
        "timeouts": array(entry.timeout for entry in entries),
        "metas": array(json.dumps(dict(entry.meta), ensure_ascii=False) if entry.meta else None for entry in entries),
        "payloads": array(entry.payload for entry in entries),
    }
