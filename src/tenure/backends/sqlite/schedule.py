"""Schedule."""

from collections.abc import Sequence

from tenure.backends.shared.sql_files import statements
from tenure.backends.sqlite.enqueue import enqueue
from tenure.backends.sqlite.timestamps import microseconds, moment
from tenure.backends.sqlite.write_transaction import Write
from tenure.core.operations import Scheduled, Slot
from tenure.core.schedules import outstanding

SCHEDULE = statements(__package__, "schedule")


def schedule(write: Write, name: str, slots: Sequence[Slot]) -> Scheduled:
    found = write.one(SCHEDULE["last"], {"name": name})
    last_at = moment(write.now if found is None else found[0])
    given_out = outstanding(slots, last_at)
    enqueued = enqueue(write, [slot.entry for slot in given_out])
    if given_out:
        last_at = given_out[-1].at
    if given_out or found is None:
        write.execute(SCHEDULE["give out"], {"name": name, "last_at": microseconds(last_at)})
    return Scheduled(now=moment(write.now), last_at=last_at, ids=[each.id for each in enqueued])
