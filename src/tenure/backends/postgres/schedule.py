"""Enqueue the slots of a schedule."""

from collections.abc import Sequence

from tenure.backends.postgres.conflict_retry import retry_on_conflict
from tenure.backends.postgres.database import Database, Execute
from tenure.backends.postgres.encoding import parse_timestamp
from tenure.backends.postgres.enqueue import decide_and_store
from tenure.backends.postgres.pipeline import BoundQuery
from tenure.core.operations import Scheduled, Slot
from tenure.core.schedules import outstanding_slots


def schedule(database: Database, name: str, slots: Sequence[Slot]) -> Scheduled:
    return retry_on_conflict(
        lambda: database.transact(lambda execute: _schedule(database, execute, name, slots), may_repeat=False)
    )


def _schedule(database: Database, execute: Execute, name: str, slots: Sequence[Slot]) -> Scheduled:
    statements = database.statements["schedule"]
    which = {"name": name, "now": database.now()}
    _, (now, last) = execute([BoundQuery(statements["begin"], which), BoundQuery(statements["last"], which)])
    last_at = parse_timestamp(last)
    new_slots = outstanding_slots(slots, last_at)
    if not new_slots:
        return Scheduled(now=parse_timestamp(now), last_at=last_at, ids=[])
    enqueued = decide_and_store(database, execute, [slot.record for slot in new_slots])
    last_at = new_slots[-1].at
    execute([BoundQuery(statements["set last slot"], {"name": name, "last_at": last_at})])
    return Scheduled(now=parse_timestamp(now), last_at=last_at, ids=[each.id for each in enqueued])
