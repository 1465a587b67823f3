"""Enqueue the slots of a schedule."""

from collections.abc import Sequence

from tenure.backends.shared.sql_files import statements
from tenure.backends.sqlite.enqueue import enqueue
from tenure.backends.sqlite.timestamps import to_datetime, to_microseconds
from tenure.backends.sqlite.write_transaction import WriteTransaction
from tenure.core.operations import Scheduled, Slot
from tenure.core.schedules import outstanding_slots

SCHEDULE = statements(__package__, "schedule")


def schedule(write: WriteTransaction, name: str, slots: Sequence[Slot]) -> Scheduled:
    found = write.fetch_one(SCHEDULE["last"], {"name": name})
    last_at = to_datetime(write.now if found is None else found[0])
    new_slots = outstanding_slots(slots, last_at)
    enqueued = enqueue(write, [slot.record for slot in new_slots])
    if new_slots:
        last_at = new_slots[-1].at
    if new_slots or found is None:
        write.execute(SCHEDULE["set last slot"], {"name": name, "last_at": to_microseconds(last_at)})
    return Scheduled(now=to_datetime(write.now), last_at=last_at, ids=[each.id for each in enqueued])
