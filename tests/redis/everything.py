"""Every operation of the store, for a store with jobs in every state."""

from collections.abc import Callable
from datetime import timedelta

from tenure.backends.redis import Redis
from tenure.backends.redis.script import FOLDER
from tenure.core.operations import Extension, Heartbeat, Move, Purge, Query, Slot
from tenure.testing import Clock
from tenure.testing.conformance.building import (
    Taken,
    build_completion,
    build_failure,
    build_record,
    request,
    settle,
    take,
    take_one,
)

Held = list[Taken]
Operation = Callable[[Redis, Held], object]

SCRIPTS = sorted(path.name.removesuffix(".lua") for path in FOLDER.iterdir() if path.name.endswith(".lua"))

BEAT = Heartbeat(name="w", host="h", pid=1, version="1")
AWAITED = "awaited"
"""A queue without jobs, with a registered waiter."""


def come_and_go(store: Redis) -> None:
    for ttl in (60, 60, 0):
        store.beat(BEAT, ttl=ttl)


def stand_and_wait(store: Redis) -> None:
    store.reap()
    store.wait(["never used"], None, 0.0)


OPERATIONS: dict[str, Operation] = {
    "enqueue": lambda store, _: store.enqueue(
        [build_record(id="new", key="k"), build_record(id="called", queue=AWAITED)]
    ),
    "schedule": lambda store, _: store.schedule(
        "daily", [Slot(at=store.schedule("daily", []).now + timedelta(days=1), record=build_record(id="slot"))]
    ),
    "claim": lambda store, _: store.claim(request(limit=10)),
    "extend": lambda store, held: store.extend([Extension(hold=each.hold, lease=100) for each in held]),
    "settle": lambda store, held: store.settle([build_completion(held[0], result=1), build_failure(held[1])]),
    "exchange": lambda store, held: store.exchange([build_failure(held[0], final=True)], request(limit=10)),
    "reap": lambda store, held: (store.reap(), store.reap(worker=held[0].job.worker)),
    "wait": lambda store, _: stand_and_wait(store),
    "move": lambda store, held: (
        store.move(["failed"], Move.RETRY),
        store.move(["scheduled", held[0].hold.id], Move.CANCEL),
    ),
    "delete": lambda store, _: store.delete(["completed"]),
    "purge": lambda store, _: store.purge(Purge(older_than=0)),
    "pause": lambda store, _: store.pause(["default"]),
    "resume": lambda store, _: store.resume(["default"]),
    "find": lambda store, _: (store.find(Query()), store.find(Query(newest_first=False))),
    "stats": lambda store, _: store.stats(),
    "explain": lambda store, _: store.explain("due", None, None),
    "counts": lambda store, _: store.counts(3600),
    "beat": lambda store, _: come_and_go(store),
    "workers": lambda store, _: store.workers(),
    "migrate": lambda store, _: store.migrate(),
}


def filled(store: Redis, clock: Clock) -> Held:
    """Store held, expired, due, scheduled, completed and failed jobs; return the held claims."""
    store.enqueue([build_record(id="completed", key="done"), build_record(id="failed", key="failed")])
    first, second = take(store, limit=2)
    settle(store, build_completion(first, result="fine"))
    settle(store, build_failure(second, final=True))
    store.enqueue([build_record(id="expired")])
    take_one(store, lease=1)
    store.enqueue([build_record(id="one"), build_record(id="two")])
    held = take(store, limit=2)
    store.enqueue(
        [
            build_record(id="due", key="due"),
            build_record(id="scheduled", delay=5),
            build_record(id="much later", delay=3600),
        ]
    )
    store.wait([AWAITED], None, 0.0)
    clock.advance(10)
    return held
