"""A store is consistent after any sequence of operations, and the verdict finds an inconsistent one."""

from dataclasses import dataclass

import pytest

from tenure.backends.memory import Memory
from tenure.backends.protocol import Backend
from tenure.backends.redis import Redis
from tenure.core.operations import Move
from tenure.testing import Clock
from tenure.testing.conformance.building import build_completion, build_failure, build_record, take, take_one
from tenure.testing.conformance.machine import compare
from tests.redis.stores import Place
from tests.redis.verdict import faults, verdict
from tests.servers.prefixes import client_of, new_prefix, remove
from tests.servers.redis import RedisServer
from tests.tiers import only_in_all


class Judged(Redis):
    """A store that is checked and deleted when it is closed."""

    def __init__(self, server: str, clock: Clock) -> None:
        self._place = Place(server, new_prefix())
        super().__init__(self._place.url, clock=clock)

    def close(self) -> None:
        super().close()
        found = faults(self._place)
        with client_of(self._place.server) as client:
            remove(self._place.prefix, client)
        assert found == {}


@only_in_all
def test_a_store_is_whole_after_random_operations(redis_server: RedisServer) -> None:
    """Slow: random sequences of operations, each checked by the keys."""

    def open_pair(clock: Clock) -> tuple[Backend, Backend]:
        return Memory(clock=clock), Judged(redis_server.url, clock)

    compare(open_pair, examples=30, steps=60)


def fill(store: Redis) -> None:
    """Store jobs in each state, one with a key, and one with a history."""
    store.enqueue([build_record(id=id) for id in ("completed", "failed", "cancelled", "again")])
    first, second, third, fourth = take(store, limit=4)
    store.settle(
        [
            build_completion(first, "result"),
            build_failure(second, final=True),
            build_failure(third, final=True),
            build_failure(fourth),
        ]
    )
    store.enqueue([build_record(id="running", key="held")])
    take_one(store, lease=60, token="token")
    store.enqueue([build_record(id="queued", key="key"), build_record(id="scheduled", delay=60)])
    store.move(["cancelled"], Move.RETRY)
    store.move(["cancelled"], Move.CANCEL)


def test_what_is_found_of_a_whole_store(place: Place, store: Redis) -> None:
    fill(store)

    assert verdict(place) == {
        "states": {"completed": 1, "failed": 1, "cancelled": 1, "running": 1, "queued": 3},
        "happened": {"enqueued": 7, "claimed": 5, "completed": 1, "failed": 3, "operator": 2},
        "crashes": 0,
        "endings that expired": 0,
        "faults": {},
    }


@dataclass(frozen=True, slots=True)
class Harm:
    """A command that corrupts a key, and the expected finding."""

    command: str
    key: str
    arguments: tuple[str | int, ...]
    fault: str


HARMS = [
    Harm("SET", "mine", ("1",), "unknown keys"),
    Harm("HDEL", "jobs", ("completed",), "unpaired jobs"),
    Harm("ZREM", "catalogue", ("running",), "unpaired jobs"),
    Harm("HSET", "jobs", ("queued", '"other","work","default",null,{},{}'), "rows of other jobs"),
    Harm("HSET", "store", ("sequence", 1), "repeated sequences"),
    Harm("DEL", "due", (), "misplaced among queued"),
    Harm("ZADD", "due", (0, "1000000001more"), "misplaced among queued"),
    Harm("DEL", "leases", (), "misplaced among running"),
    Harm("DEL", "held", (), "misplaced among running"),
    Harm("HSET", "tokens", ("more", '"w1"'), "wrong tokens"),
    Harm("HINCRBY", "tokens", ('"token"#', 1), "wrong tokens"),
    Harm("HSET", "tokens", ('"token"', '"w1"\nother'), "wrong tokens"),
    Harm("DEL", "finished", (), "misplaced among finished"),
    Harm("ZADD", "stopped", (1, "failed"), "misplaced among finished"),
    Harm("HSET", "results", ("failed", "null"), "misplaced among finished"),
    Harm("HINCRBY", "numbers", ("10000000012", 1), "wrong numbers"),
    Harm("DEL", "keys", (), "wrong keys"),
    Harm("DEL", "history", (), "wrong history"),
    Harm("HSET", "history", ("9:completed", '["failed",1]'), "wrong history"),
    Harm("HDEL", "lanes", ('"default","work"',), "wrong lanes"),
    Harm("DEL", "open", (), "wrong lanes"),
    Harm("SADD", "open", ("10000099",), "wrong lanes"),
    Harm("DEL", "upcoming", (), "wrong lanes"),
    Harm("DEL", "minutes", (), "unpaired minutes"),
    Harm("ZADD", "shown", (1, "w9"), "unpaired workers"),
    Harm("ZADD", "waits", (1, "nobody"), "unpaired waiters"),
]


@pytest.mark.parametrize("harm", HARMS, ids=lambda harm: f"{harm.command} {harm.key}")
def test_harm_is_found_out(place: Place, store: Redis, harm: Harm) -> None:
    fill(store)

    place.execute(harm.command, place.key(harm.key), *harm.arguments)

    assert list(faults(place)) == [harm.fault]


@pytest.mark.parametrize(
    ("id", "old", "new", "fault"),
    [
        ("queued", '"key",null', '"key","w1"', "half cleared claims"),
        ("scheduled", ",null,null,null,null,", ',"key",null,null,null,', "keys of two"),
    ],
)
def test_what_is_wrong_in_a_row_is_found_out(
    place: Place, store: Redis, id: str, old: str, new: str, fault: str
) -> None:
    fill(store)
    row = place.execute("HGET", place.key("rows"), id).decode()

    place.execute("HSET", place.key("rows"), id, new.join(row.rsplit(old, 1)))

    assert fault in faults(place)
