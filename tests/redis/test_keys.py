"""Stores on one server never see each other, and leave nothing behind."""

from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager
from typing import Any

import pytest

import tenure
from tenure.backends.redis import Redis
from tenure.core.operations import Enqueued, Extension, Heartbeat, HoldStatus, Move, Purge, Query, Refusal, Stats
from tenure.testing.conformance.building import (
    Taken,
    build_completion,
    build_failure,
    build_record,
    build_release,
    request,
    take,
)
from tests.redis.contents import contents_of
from tests.redis.stores import Place
from tests.redis.verdict import faults
from tests.servers.prefixes import client_of, remove
from tests.servers.redis import RedisServer

OF_THE_DAY = ["counts", "minutes"]
"""The keys with the counts of the last day, which outlive the jobs."""


@pytest.fixture
def neighbour(place: Place) -> Iterator[Place]:
    """A prefix that starts with the other prefix."""
    with taken_away(Place(place.server, f"{place.prefix}2")) as neighbour:
        yield neighbour


@contextmanager
def taken_away(place: Place) -> Iterator[Place]:
    yield place
    with client_of(place.server) as client:
        remove(place.prefix, client)


def fill(store: Redis) -> list[Taken]:
    """Store jobs in every state, in several lanes, and all other kinds of data; return the held claims."""
    store.enqueue(
        [build_record(id=f"{type}-{n}", type=type, key=f"{type}-{n}") for type in ("work", "other") for n in range(6)]
    )
    first, second, third, *rest = take(store, limit=8, token="filled")
    store.settle(
        [
            build_completion(first, "result"),
            build_failure(second, final=True),
            build_failure(third),
            build_release(rest.pop()),
        ]
    )
    store.enqueue([build_record(id="scheduled", queue="later", delay=3600)])
    store.move(["other-5"], Move.CANCEL)
    store.schedule("daily", [])
    store.pause(["paused"])
    store.beat(Heartbeat(name="w1", host="h", pid=1, version="1"), 60)
    store.wait(["nothing"], None, 0)
    return rest


def operations_of(taken: list[Taken]) -> list[tuple[Callable[[Redis], Any], object]]:
    """Return each operation, and the result of a store without these jobs."""
    ids = [each.id for each in taken]
    extensions = [Extension(hold=each.hold, lease=60) for each in taken]
    missing = [(id, Refusal.UNKNOWN) for id in ids]
    return [
        (lambda store: store.claim(request(token="filled")).jobs, []),
        (lambda store: store.extend(extensions), [HoldStatus.LOST] * len(ids)),
        (lambda store: store.settle(list(map(build_completion, taken))), [False] * len(ids)),
        (lambda store: store.exchange(list(map(build_failure, taken)), request())[0], [False] * len(ids)),
        (lambda store: store.reap(worker="w1"), []),
        (lambda store: [(each.id, each.refusal) for each in store.move(ids, Move.RETRY)], missing),
        (lambda store: [(each.id, each.refusal) for each in store.delete(ids)], missing),
        (lambda store: store.purge(Purge(older_than=0)), 0),
        (lambda store: store.find(Query()).jobs, []),
        (lambda store: store.find(Query(ids=tuple(ids))).jobs, []),
        (lambda store: store.explain(ids[0], None, None), None),
        (lambda store: store.stats(), Stats(rows=(), paused=())),
        (lambda store: store.counts(3600), []),
        (lambda store: store.workers(), []),
    ]


def test_two_prefixes_never_see_each_other(place: Place, store: Redis, neighbour: Place) -> None:
    taken = fill(store)
    before = contents_of(place)

    with closing(neighbour.open()) as other:
        answers = [(operation(other), expected) for operation, expected in operations_of(taken)]
        enqueued = other.enqueue([build_record(id=taken[0].id, key=taken[0].job.key, on_conflict="raise")])
        claimed = [each.id for each in take(other, limit=10)]

    assert [answer for answer, _ in answers] == [expected for _, expected in answers]
    assert enqueued == [Enqueued(id=taken[0].id, created=True)]
    assert claimed == [taken[0].id]
    assert contents_of(place) == before
    assert faults(place) == faults(neighbour) == {}


def test_what_one_prefix_is_rid_of_the_other_keeps(place: Place, store: Redis, neighbour: Place) -> None:
    fill(store)
    before = contents_of(place)

    with closing(neighbour.open()) as other:
        taken = fill(other)
        other.settle(list(map(build_completion, taken)))
        other.resume(["paused"])
        other.beat(Heartbeat(name="w1", host="h", pid=1, version="1"), 0)
        purged = other.purge(Purge(older_than=0, limit=100))

    assert purged > len(taken)
    assert contents_of(place) == before


def test_two_databases_of_one_server_never_see_each_other(redis_server: RedisServer, place: Place) -> None:
    with taken_away(Place(with_database(redis_server.url, 1), place.prefix)) as other:
        with closing(place.open()) as store, closing(other.open()) as elsewhere:
            store.enqueue([build_record(id="one")])
            seen = take(elsewhere)
            elsewhere.enqueue([build_record(id="two")])

            assert seen == []
            assert [each.id for each in take(store, limit=10)] == ["one"]
        assert list(contents_of(other).hashes["jobs"]) == ["two"]


def with_database(url: str, number: int) -> str:
    return f"{url}{'&' if '?' in url else '?'}db={number}"


def finish_everything(store: Redis) -> None:
    """Finish the queued and the held jobs, in every way."""
    store.settle([build_completion(each, "result") for each in fill(store)])
    store.resume(["paused"])
    store.beat(Heartbeat(name="w1", host="h", pid=1, version="1"), 0)
    store.move([job.id for job in store.find(Query(limit=100)).jobs], Move.CANCEL)


def test_a_store_whose_jobs_are_purged_leaves_no_key_but_those_that_expire(anywhere: Place) -> None:
    with closing(anywhere.open()) as store:
        finish_everything(store)

        purged = store.purge(Purge(older_than=0, limit=100))

    left = contents_of(anywhere).keys
    assert purged == 13
    assert [key for key in left if lasting(anywhere, key)] == ["schedules"]
    assert left == {*OF_THE_DAY, "schedules", "waiters", "waiting", "waits"}
    assert faults(anywhere) == {}


def lasting(place: Place, key: str) -> bool:
    """Return whether a key does not expire."""
    return int(place.execute("TTL", place.key(key))) < 0


def test_a_store_whose_jobs_are_deleted_leaves_no_key_but_those_that_expire(place: Place, store: Redis) -> None:
    store.enqueue([build_record(id=f"{n}", queue=f"{n}", key="key") for n in range(10)])
    store.settle([build_completion(each, "result") for each in take(store, limit=10)])

    store.delete([str(n) for n in range(10)])

    assert place.keys() == [place.key(name) for name in OF_THE_DAY]
    assert not any(lasting(place, name) for name in OF_THE_DAY)


def test_a_worker_leaves_no_key_but_those_that_expire(place: Place) -> None:
    with tenure.Jobs(place.url) as jobs:

        @jobs.task
        def work() -> None: ...

        jobs.enqueue_many(work.job() for _ in range(100))
        jobs.work(drain=True)
        jobs.purge(older_than=0)

    assert place.keys() == [place.key(name) for name in OF_THE_DAY]


def test_a_store_of_which_nothing_is_left_is_as_new(place: Place, store: Redis) -> None:
    finish_everything(store)
    store.purge(Purge(older_than=0, limit=100))

    store.enqueue([build_record(id="work-0", key="work-0", on_conflict="raise")])

    (taken,) = take(store)
    found = contents_of(place)
    assert (taken.job.fence, taken.job.history) == (1, ())
    assert found.hashes["store"] == {"layout": "1", "sequence": "1", "lanes": "1"}
    assert faults(place) == {}


def test_a_lane_of_which_nothing_is_left_is_gone_while_others_stay(place: Place, store: Redis) -> None:
    store.enqueue([build_record(queue="one"), build_record(queue="two")])
    store.settle(list(map(build_completion, take(store, limit=2))))

    store.purge(Purge(older_than=0, queues=("one",)))

    assert [row.queue for row in store.stats().rows] == ["two"]
    assert faults(place) == {}
