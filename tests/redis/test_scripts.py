"""One script per operation, even with an empty script cache; and the commands that a script may use."""

import re
import threading
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from redis.crc import key_slot

import tenure
from tenure.backends.redis import Redis
from tenure.backends.redis.address import address_of
from tenure.backends.redis.script import FOLDER, script
from tenure.core.operations import Extension, Heartbeat, Move, Purge, Query
from tenure.testing.conformance.building import build_completion, build_failure, build_record, request, take, take_one
from tests.redis.proxy import Proxy
from tests.redis.stores import Place
from tests.redis.verdict import faults
from tests.servers.prefixes import client_of
from tests.servers.redis import FAST, RedisServer, names
from tests.servers.servers import Servers
from tests.tiers import only_in_all

SCRIPTS = sorted(file.name.removesuffix(".lua") for file in FOLDER.iterdir() if file.name.endswith(".lua"))

ALLOWED = {
    *("DEL", "EXISTS", "EXPIRE", "PUBLISH", "TIME"),
    *("HDEL", "HEXISTS", "HGET", "HGETALL", "HINCRBY", "HMGET", "HSET"),
    *("SADD", "SCARD", "SISMEMBER", "SMEMBERS", "SREM"),
    *("ZADD", "ZCARD", "ZLEXCOUNT", "ZRANGE", "ZRANGEBYLEX", "ZRANGEBYSCORE", "ZREM", "ZREVRANGEBYSCORE"),
}
"""All commands exist since Redis 6.2, and none scans keys."""

OPTIONS = {"LIMIT", "LT", "WITHSCORES"}

WORD = re.compile(r'"([A-Z]{2,})"')

MOST_COMMANDS = 40
"""Commands per script, for any number of jobs: a few for each key."""


@pytest.fixture
def proxy(redis_server: RedisServer) -> Iterator[Proxy]:
    with Proxy(redis_server) as proxy:
        yield proxy


@pytest.fixture
def through(place: Place, proxy: Proxy) -> Iterator[Redis]:
    """The store through the proxy, with an open connection, on a server with all scripts cached."""
    for name in SCRIPTS:
        place.execute("SCRIPT LOAD", script(name).text)
    with closing(Redis(proxy.url_of(place.prefix))) as through:
        through.stats()
        yield through


def requests_of(proxy: Proxy, action: Callable[[], object]) -> list[str]:
    """Return the first words of each request of a client."""
    before = len(proxy.passed)
    action()
    return [message.type for message in proxy.passed[before:] if message.sender == "client"]


def commands_of(place: Place, action: Callable[[], object]) -> int:
    """Return the number of commands on the server, including those in scripts."""
    before = commands_done(place)
    action()
    return commands_done(place) - before - 1


def commands_done(place: Place) -> int:
    with client_of(place.server) as client:
        told: dict[str, Any] = client.info("commandstats")
    # Each call of this function opens a new connection.
    return sum(each["calls"] for name, each in told.items() if not name.startswith(("cmdstat_client", "cmdstat_hello")))


@pytest.mark.parametrize("name", SCRIPTS)
def test_a_script_knows_only_commands_that_are_allowed(name: str) -> None:
    text = script(name).text

    assert set(WORD.findall(text)) <= ALLOWED | OPTIONS
    assert text.count("redis.call") == 1
    # Only PUBLISH may fail without an error: by then the script has written its changes.
    assert text.count("pcall") == text.count('redis.pcall("PUBLISH"') <= 1


def test_every_command_that_is_allowed_is_used() -> None:
    assert {word for name in SCRIPTS for word in WORD.findall(script(name).text)} == ALLOWED | OPTIONS


@pytest.mark.parametrize("name", SCRIPTS)
def test_a_script_declares_exactly_the_keys_that_it_names(name: str) -> None:
    head, _, body = script(name).text.partition("\n")

    assert set(re.findall(r"\bkey\.(\w+)", body)) == set(script(name).keys)
    assert "KEYS" not in body
    assert head.count("KEYS") == len(script(name).keys)


@pytest.mark.parametrize("name", SCRIPTS)
def test_all_keys_of_a_script_are_in_the_slot_of_the_store(name: str) -> None:
    address = address_of("redis://localhost?prefix=mine", "")

    slots = {key_slot(address.key(key).encode()) for key in script(name).keys}

    assert slots == {key_slot(b"{mine}")}


def test_an_operation_is_one_request_however_many_jobs(proxy: Proxy, through: Redis) -> None:
    taken = []

    def claim() -> None:
        taken.extend(take(through, limit=100))

    actions: list[Callable[[], object]] = [
        lambda: through.enqueue([build_record(key=f"key-{n}") for n in range(300)]),
        claim,
        lambda: through.extend([Extension(hold=each.hold, lease=60) for each in taken]),
        lambda: through.exchange([build_completion(each) for each in taken], request(limit=100)),
        lambda: through.settle([build_failure(each) for each in taken]),
        lambda: through.reap(worker="w1"),
        lambda: through.move([each.id for each in taken], Move.CANCEL),
        lambda: through.find(Query(ids=tuple(each.id for each in taken), limit=100)),
        lambda: through.find(Query(limit=100)),
        through.stats,
        lambda: through.counts(3600),
        lambda: through.purge(Purge(older_than=0, limit=50)),
        lambda: through.delete([each.id for each in taken]),
        lambda: through.pause(["a", "b"]),
        lambda: through.resume(["a", "b"]),
        lambda: through.schedule("daily", []),
        lambda: through.beat(Heartbeat(name="w1", host="h", pid=1, version="1"), 60),
        through.workers,
    ]

    assert [requests_of(proxy, action) for action in actions] == [["EVALSHA"]] * len(actions)


def test_a_script_does_few_commands_however_many_jobs(place: Place, through: Redis) -> None:
    enqueued = commands_of(place, lambda: through.enqueue([build_record() for _ in range(200)]))
    taken = take(through, limit=100)
    exchanged = commands_of(place, lambda: through.exchange(list(map(build_completion, taken)), request(limit=100)))

    assert max(enqueued, exchanged) <= MOST_COMMANDS


def test_a_worker_asks_less_than_once_for_ten_jobs(place: Place, proxy: Proxy, through: Redis) -> None:
    with tenure.Jobs(proxy.url_of(place.prefix)) as jobs:

        @jobs.task
        def work() -> None: ...

        jobs.enqueue_many(work.job() for _ in range(1_000))

        asked = requests_of(proxy, lambda: jobs.work(drain=True))

    assert through.stats().total("completed") == 1_000
    assert set(asked) <= {"EVALSHA", "CLIENT", "INFO", "CONFIG"}
    assert asked.count("EVALSHA") <= 100


def test_a_script_that_the_server_has_forgotten_costs_one_more_request_once(
    place: Place, proxy: Proxy, through: Redis
) -> None:
    place.execute("SCRIPT FLUSH")

    asked = [requests_of(proxy, lambda: take(through)) for _ in range(2)]

    assert asked == [["EVALSHA", "EVAL"], ["EVALSHA"]]


def work_a_while(store: Redis) -> None:
    for _ in range(50):
        store.enqueue([build_record() for _ in range(4)])
        taken = take(store, limit=4)
        store.extend([Extension(hold=each.hold, lease=60) for each in taken])
        store.exchange([build_completion(each) for each in taken], request(types=("none",)))


@only_in_all
@pytest.mark.parametrize("name", names())
def test_scripts_that_are_forgotten_all_the_time_let_nothing_fail(servers: Servers, name: str) -> None:
    """Slow: scripts are flushed for some seconds while others work."""
    done = threading.Event()

    def flush(place: Place) -> int:
        with client_of(place.server) as client:
            return sum(client.script_flush() for _ in iter(done.is_set, True))

    with servers.own_redis(name, FAST) as server, ThreadPoolExecutor(5) as threads:
        place = Place(server.url, "tenure")
        with closing(place.open()) as store:
            flushing = threads.submit(flush, place)
            working = [threads.submit(work_a_while, store) for _ in range(4)]
            troubles = [each.exception() for each in working]
            done.set()

            assert troubles == [None] * 4
            assert flushing.result() > 0
            assert store.stats().total("completed") == 800
        assert faults(place) == {}


def test_the_clock_of_the_server_decides(place: Place, store: Redis) -> None:
    earlier = time_of(place)
    store.enqueue([build_record(id="one")])
    taken = take_one(store)
    later = time_of(place)

    assert taken.job.started_at is not None
    assert earlier <= taken.job.created_at <= taken.job.started_at <= later


def time_of(place: Place) -> datetime:
    seconds, microseconds = place.execute("TIME")
    return datetime.fromtimestamp(seconds, UTC) + timedelta(microseconds=microseconds)
