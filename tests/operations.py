"""The writing operations of a store, on jobs in every state, and the stored data for comparison."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from datetime import timedelta

from tenure.backends.protocol import Backend
from tenure.client import settling
from tenure.core.job import Progress
from tenure.core.operations import LARGEST_BATCH, Extension, Move, Purge, Query, Slot
from tenure.testing import Clock
from tenure.testing.conformance.building import (
    Taken,
    as_taken,
    build_completion,
    build_failure,
    build_record,
    request,
    settle,
    take,
    take_one,
)

SCHEDULE = "daily"


@dataclass(frozen=True, slots=True)
class Given:
    """The held jobs, among them the job `one`, the hint of their claim, and the clock."""

    held: Sequence[Taken]
    hint: object
    clock: Clock

    @property
    def slots(self) -> list[Slot]:
        return [Slot(at=self.clock.now - timedelta(seconds=1), record=build_record(id="slot"))]


Operation = Callable[[Backend, Given], object]


def given(store: Backend, clock: Clock, held: int = 3) -> Given:
    """Store `held` running jobs, and expired, due, completed and failed jobs; the content is deterministic."""
    store.enqueue([build_record(id="completed"), build_record(id="failed")])
    first, second = take(store, limit=2, token="earlier")
    settle(store, build_completion(first))
    settle(store, build_failure(second, final=True))
    store.enqueue([build_record(id="expired")])
    take_one(store, lease=1, token="of the dead")
    store.enqueue([build_record(id="one"), *(build_record(id=f"held-{number:02}") for number in range(1, held))])
    asked = request(limit=held, token="held")
    claimed = store.claim(asked)
    store.enqueue([build_record(id="due"), build_record(id="due too"), build_record(id="with a key", key="taken")])
    store.schedule(SCHEDULE, [])
    clock.advance(10)
    return Given([as_taken(job, asked) for job in claimed.jobs], claimed.hint, clock)


def stored(store: Backend) -> object:
    """Return the jobs, the event counts and the last slot."""
    return store.find(Query(limit=LARGEST_BATCH)).jobs, store.counts(3600), store.schedule(SCHEDULE, [])


def enqueue(store: Backend, _: Given) -> object:
    return [each.id for each in store.enqueue([build_record(id="new"), build_record(id="one")])]


def enqueue_with_keys(store: Backend, _: Given) -> object:
    entries = [build_record(id="new", key="free", on_conflict="raise"), build_record(id="newer", key="taken")]
    return [each.id for each in store.enqueue(entries)]


def claim(store: Backend, _: Given) -> object:
    return store.claim(request(limit=2, token="new"))


def extend(store: Backend, given: Given) -> object:
    return store.extend([Extension(hold=each.hold, lease=100, progress=Progress(done=1)) for each in given.held])


def complete(store: Backend, given: Given) -> object:
    return settling.settle(store, [build_completion(each) for each in given.held])


def fail(store: Backend, given: Given) -> object:
    return settling.settle(store, [build_failure(each) for each in given.held])


def exchange(store: Backend, given: Given) -> object:
    one, *others = given.held
    return store.exchange([build_completion(one), *map(build_failure, others)], request(limit=2, token="new"))


def exchange_of_many(store: Backend, given: Given) -> object:
    """Complete all held jobs and claim; some stores do both concurrently."""
    return store.exchange(list(map(build_completion, given.held)), request(limit=2, token="new", hint=given.hint))


REPEATED: Mapping[str, Operation] = {
    "enqueue": enqueue,
    "enqueue with keys": enqueue_with_keys,
    "claim": claim,
    "extend": extend,
    "complete": complete,
    "fail": fail,
    "exchange": exchange,
    "exchange of many": exchange_of_many,
}
"""Operations that a store retries by itself after a lost response."""

NOT_REPEATED: Mapping[str, Operation] = {
    "reap": lambda store, _: store.reap(),
    "purge": lambda store, _: store.purge(Purge(older_than=0)),
    "move": lambda store, _: store.move(["due", "failed"], Move.CANCEL),
    "delete": lambda store, _: store.delete(["completed", "failed"]),
    "schedule": lambda store, given: store.schedule(SCHEDULE, given.slots),
}
"""Operations that would return a different result the second time."""
