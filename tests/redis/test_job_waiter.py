"""A job wakes one of the waiters registered for its queue and type, in any process.

The tests for every store are in tests/stores/test_wakeups.py.
"""

from collections.abc import Iterator
from contextlib import ExitStack, closing

import pytest

from tenure.backends.redis import Redis
from tenure.backends.shared import waiter
from tenure.testing.conformance.building import build_record
from tests.redis.stores import Place
from tests.redis.waiting import HOUR, LIMIT, is_registered, listen, waiting
from tests.servers.redis import OwnRedis
from tests.worker.looking import until


@pytest.fixture
def other(place: Place) -> Iterator[Redis]:
    """Another handle on the store, as in another process."""
    other = place.open()
    yield other
    other.close()


@pytest.fixture
def hears(store: Redis, monkeypatch: pytest.MonkeyPatch) -> None:
    """The store receives notifications, and polls only once."""
    listen(store)
    monkeypatch.setattr(waiter, "LONGEST_POLL", HOUR)


@pytest.fixture
def crowd(place: Place, monkeypatch: pytest.MonkeyPatch) -> Iterator[list[Redis]]:
    """Handles that receive notifications, and poll only once; in wake-up order."""
    stores = sorted((place.open() for _ in range(5)), key=lambda store: store._waiter._channel)
    for store in stores:
        listen(store)
    monkeypatch.setattr(waiter, "LONGEST_POLL", HOUR)
    yield stores
    for store in stores:
        store.close()


def test_one_job_wakes_one_of_those_who_wait(place: Place, crowd: list[Redis], store: Redis) -> None:
    with ExitStack() as all_of_them:
        threads = [all_of_them.enter_context(waiting(place, each, ["mail"])) for each in crowd]

        store.enqueue([build_record(queue="mail")])
        until(lambda: sum(not thread.is_alive() for thread in threads) == 1)
        still_there = sum(is_registered(place, each, ["mail"]) for each in crowd)
        store.enqueue([build_record(queue="mail") for _ in crowd[1:]])

    assert still_there == len(crowd) - 1
    assert not any(thread.is_alive() for thread in threads)


def test_a_job_wakes_nobody_who_waits_for_another_queue_or_type(place: Place, crowd: list[Redis], store: Redis) -> None:
    first, second, *_ = crowd
    with waiting(place, first, ["post"]), waiting(place, second, ["mail"]) as wanted:
        store.enqueue([build_record(queue="mail")])
        wanted.join(LIMIT)
        is_undisturbed = is_registered(place, first, ["post"])
        store.enqueue([build_record(queue="post")])

    assert not wanted.is_alive()
    assert is_undisturbed


@pytest.mark.parametrize("types", [None, ["send"], ["other", "send"]])
@pytest.mark.parametrize("queues", [None, ["mail"], ["other", "mail"]])
@pytest.mark.usefixtures("hears")
def test_a_job_wakes_who_asked_for_it_in_whatever_words(
    place: Place, store: Redis, other: Redis, queues: list[str] | None, types: list[str] | None
) -> None:
    with waiting(place, store, queues, types) as thread:
        other.enqueue([build_record("send", queue="mail")])

    assert not thread.is_alive()
    assert not is_registered(place, store, queues, types)


def test_a_call_for_somebody_who_left_goes_to_another(place: Place, crowd: list[Redis], store: Redis) -> None:
    *left, stayed = crowd
    for each in left:
        each.wait(["mail"], None, 0.01)

    with waiting(place, stayed, ["mail"]) as thread:
        store.enqueue([build_record(queue="mail")])

    assert not thread.is_alive()


def test_a_call_for_somebody_who_is_dead_goes_to_another(place: Place, crowd: list[Redis], store: Redis) -> None:
    *dead, alive = crowd
    for each in dead:
        each.wait(["mail"], None, 0.01)
        each._waiter._listener.close()

    with waiting(place, alive, ["mail"]) as thread:
        store.enqueue([build_record(queue="mail")])

    assert not thread.is_alive()


def test_a_job_calls_only_so_many_of_those_who_are_dead(place: Place, store: Redis) -> None:
    for number in range(4):
        places = [f'"mail","{type}"|dead#{number}' for type in range(500)]
        place.execute("ZADD", place.key("waiters"), *(word for each in places for word in (0, each)))
        place.execute("HSET", place.key("waiting"), f"dead#{number}", "\n".join(places))

    store.enqueue([build_record("0", queue="mail")])

    assert sorted(place.execute("HKEYS", place.key("waiting"))) == [b"dead#2", b"dead#3"]
    assert place.execute("ZCARD", place.key("waiters")) == 2 * 500


def test_a_job_is_stored_though_of_one_who_waited_only_a_place_is_left(own_redis: OwnRedis) -> None:
    place = Place(own_redis.url, "tenure")
    place.execute("ZADD", place.key("waiters"), 0, '"mail",*|dead#1')

    with closing(place.open("&timeout=5")) as store:
        store.enqueue([build_record(queue="mail")])

    assert place.execute("ZCARD", place.key("waiters")) == 0


@pytest.mark.parametrize("message", ["", "none", "-1", "1000000"])
@pytest.mark.usefixtures("hears")
def test_a_message_of_somebody_else_disturbs_nobody(place: Place, store: Redis, other: Redis, message: str) -> None:
    with waiting(place, store, ["mail"]) as thread:
        place.execute("PUBLISH", store._waiter._channel, message)
        other.enqueue([build_record(queue="mail")])

    assert not thread.is_alive()
    assert store._waiter._listener.is_connected


def test_who_waited_long_ago_is_swept_away_by_who_waits_now(
    place: Place, store: Redis, other: Redis, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(waiter, "LONGEST_POLL", 0.001)
    other.wait(["mail"], None, 0.0)

    def is_alone() -> bool:
        store.wait(["post"], None, 0.0)
        return bool(place.execute("ZCARD", place.key("waits")) == 1)

    until(is_alone)

    assert place.execute("HLEN", place.key("waiting")) == 1
    assert place.execute("ZCARD", place.key("waiters")) == 1


@pytest.mark.parametrize("key", ["waiters", "waiting", "waits"])
def test_of_those_who_waited_nothing_stays_for_long(place: Place, store: Redis, key: str) -> None:
    store.wait(["mail"], None, 0.0)

    assert 0 < place.execute("TTL", place.key(key)) <= 60
