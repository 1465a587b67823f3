"""A server at its `maxmemory` accepts no new jobs, but existing jobs can still be claimed and finished."""

from collections.abc import Iterator
from contextlib import closing

import pytest

import tenure
from tenure.backends.redis import Redis
from tenure.core.operations import Extension, Heartbeat, HoldStatus, Move, Purge, Query
from tenure.errors import StoreUnavailable
from tenure.testing import Clock
from tenure.testing.conformance.building import (
    ENDINGS,
    build_completion,
    build_failure,
    build_record,
    ids_of,
    job_of,
    request,
    settle,
    take,
    take_one,
)
from tests.redis.contents import contents_of
from tests.redis.stores import Place
from tests.redis.verdict import faults
from tests.servers.redis import FAST, OwnRedis, names
from tests.servers.servers import Servers


@pytest.fixture(params=names())
def server(request: pytest.FixtureRequest, servers: Servers) -> Iterator[OwnRedis]:
    with servers.own_redis(request.param, FAST) as server:
        yield server


@pytest.fixture
def place(server: OwnRedis) -> Place:
    return Place(server.url, "tenure")


@pytest.fixture
def clock() -> Clock:
    return Clock()


@pytest.fixture
def store(place: Place, clock: Clock) -> Iterator[Redis]:
    """A store with due, held, scheduled and completed jobs."""
    with closing(place.open(clock=clock)) as store:
        store.enqueue([build_record(id=f"done-{number}") for number in range(20)])
        store.settle(list(map(build_completion, take(store, limit=20))))
        store.enqueue([build_record(id="soon", delay=10)])
        store.enqueue([build_record(id=f"due-{number}") for number in range(20)])
        yield store


def fill_up(place: Place) -> None:
    """Make the server run out of memory."""
    place.execute("CONFIG SET", "maxmemory", 1)


def test_enqueueing_is_refused_with_the_remedy_and_nothing_is_changed(place: Place, store: Redis) -> None:
    before = contents_of(place)
    fill_up(place)

    with pytest.raises(StoreUnavailable, match="is out of memory; raise its 'maxmemory', or purge finished jobs"):
        store.enqueue([build_record(), build_record(queue="new", key="new")])

    assert contents_of(place) == before


def test_claims_are_made_extended_and_completed(place: Place, store: Redis) -> None:
    fill_up(place)

    taken = take(store, limit=5)
    holdings = store.extend([Extension(hold=each.hold, lease=100) for each in taken])
    landed, claimed = store.exchange(list(map(build_completion, taken)), request(limit=5))

    assert holdings == [HoldStatus.HELD] * 5
    assert landed == [True] * 5
    assert ids_of(claimed.jobs) == [f"due-{number}" for number in range(5, 10)]
    assert faults(place) == {}


@pytest.mark.parametrize("ending", ENDINGS)
def test_claims_are_ended_in_every_way(place: Place, store: Redis, ending: str) -> None:
    first, second = take(store, limit=2)
    fill_up(place)

    assert settle(store, ENDINGS[ending](first))
    landed, claimed = store.exchange([ENDINGS[ending](second)], request())

    assert landed == [True]
    assert len(claimed.jobs) == 1
    assert faults(place) == {}


def test_a_late_settlement_is_lost_as_ever(place: Place, store: Redis) -> None:
    taken = take_one(store)
    settle(store, build_completion(taken))
    fill_up(place)

    assert settle(store, build_failure(taken)) is False
    assert faults(place) == {}


def test_what_ran_out_is_claimed_again(place: Place, store: Redis, clock: Clock) -> None:
    lost = take_one(store, lease=1)
    fill_up(place)

    clock.advance(2)
    taken = take(store, limit=100)

    assert lost.id in ids_of(taken)
    assert faults(place) == {}


def test_what_came_due_is_claimed(place: Place, store: Redis, clock: Clock) -> None:
    fill_up(place)

    clock.advance(10)
    taken = take(store, limit=100)

    assert "soon" in ids_of(taken)
    assert faults(place) == {}


def test_what_ran_out_is_reaped_and_what_is_queued_is_cancelled(place: Place, store: Redis, clock: Clock) -> None:
    lost = take_one(store, lease=1)
    clock.advance(2)
    fill_up(place)

    reaped = store.reap()
    (moved,) = store.move(["soon"], Move.CANCEL)

    assert [each.id for each in reaped] == [lost.id]
    assert moved.moved
    assert faults(place) == {}


def test_a_worker_gives_signs_of_life_and_waits(place: Place, store: Redis) -> None:
    fill_up(place)

    store.beat(Heartbeat(name="w1", host="h", pid=1, version="1"), 60)
    store.wait(["nothing"], None, 0)

    assert [worker.name for worker in store.workers()] == ["w1"]
    assert faults(place) == {}


def test_who_waits_for_a_job_that_comes_due_waits(place: Place, store: Redis) -> None:
    take(store, limit=20)
    fill_up(place)

    store.wait(None, None, 0)

    assert place.execute("ZCARD", place.key("waits")) == 1
    assert faults(place) == {}


def test_after_a_purge_jobs_are_enqueued_again(place: Place, store: Redis) -> None:
    used = place.execute("INFO", "memory")["used_memory"]
    store.enqueue([build_record(id=f"large-{number}", payload={"text": "x" * 50_000}) for number in range(100)])
    store.settle(list(map(build_completion, take(store, limit=1_000))))
    # Other clients may use more of the server's memory meanwhile.
    place.execute("CONFIG SET", "maxmemory", used + 2_000_000)
    with pytest.raises(StoreUnavailable, match="is out of memory"):
        store.enqueue([build_record(id="new")])

    purged = store.purge(Purge(older_than=0, limit=1_000))
    store.enqueue([build_record(id="new")])

    assert purged >= 100
    assert job_of(store, "new").state == "queued"
    assert faults(place) == {}


def test_a_worker_brings_all_that_is_due_to_its_end(place: Place, store: Redis) -> None:
    fill_up(place)

    with tenure.Jobs(place.url) as jobs:

        @jobs.task
        def work() -> str:
            return "done"

        summary = jobs.work(drain=True)

    # By the clock of the server all jobs are due.
    assert summary.completed == 21
    assert {job.result for job in store.find(Query(ids=("due-0", "due-19"))).jobs} == {"done"}
    assert faults(place) == {}
