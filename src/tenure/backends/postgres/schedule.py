"""Schedule."""

from collections.abc import Sequence

from tenure.backends.postgres.conflict_retry import decided
from tenure.backends.postgres.database import Ask, Database
from tenure.backends.postgres.encoding import moment
from tenure.backends.postgres.enqueue import decide_and_store
from tenure.backends.postgres.pipeline import Step
from tenure.core.operations import Scheduled, Slot
from tenure.core.schedules import outstanding


def schedule(database: Database, name: str, slots: Sequence[Slot]) -> Scheduled:
    return decided(lambda: database.talk(lambda ask: _schedule(database, ask, name, slots), may_repeat=False))


def _schedule(database: Database, ask: Ask, name: str, slots: Sequence[Slot]) -> Scheduled:
    statements = database.statements["schedule"]
    which = {"name": name, "now": database.now()}
    _, (now, last) = ask([Step(statements["begin"], which), Step(statements["last"], which)])
    last_at = moment(last)
    given_out = outstanding(slots, last_at)
    if not given_out:
        return Scheduled(now=moment(now), last_at=last_at, ids=[])
    enqueued = decide_and_store(database, ask, [slot.entry for slot in given_out])
    last_at = given_out[-1].at
    ask([Step(statements["give out"], {"name": name, "last_at": last_at})])
    return Scheduled(now=moment(now), last_at=last_at, ids=[each.id for each in enqueued])
