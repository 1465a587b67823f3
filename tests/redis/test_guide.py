"""The guide describes the keys on the server."""

import re
from contextlib import closing
from pathlib import Path

import redis

from tenure.backends.redis import Redis
from tenure.backends.redis.script import script
from tenure.errors import StoreUnavailable
from tenure.testing import Clock
from tests.redis.everything import BEAT, OPERATIONS, SCRIPTS, Held, Operation, filled
from tests.redis.stores import Place
from tests.servers.redis import OwnRedis

GUIDE = Path(__file__).parents[2] / "docs" / "redis.md"


def listed() -> dict[str, str]:
    """Return the keys that the guide lists, with their types."""
    return dict(re.findall(r"^\| `(\w+)` \| (hash|zset|set|string|list) \|", GUIDE.read_text(), re.MULTILINE))


def test_the_guide_lists_exactly_the_keys_that_the_scripts_use() -> None:
    used = {key for name in SCRIPTS for key in script(name).keys}

    assert set(listed()) == used


def test_every_key_has_the_type_that_the_guide_says(place: Place) -> None:
    clock = Clock()
    with closing(place.open(clock=clock)) as store:
        filled(store, clock)
        store.beat(BEAT, ttl=60)
        store.schedule("daily", [])
        store.pause(["other"])

        keys = place.keys()
        types = [place.execute("TYPE", key).decode() for key in keys]

    assert dict(zip(keys, types, strict=True)) == {place.key(name): kind for name, kind in listed().items()}


def test_a_server_without_memory_takes_in_no_jobs_and_does_everything_else(own_redis: OwnRedis) -> None:
    clock = Clock()
    stores = {name: Redis(own_redis.url_of(name), clock=clock) for name in OPERATIONS}
    held = {name: filled(store, clock) for name, store in stores.items()}
    with redis.Redis.from_url(own_redis.url) as client:
        client.config_set("maxmemory", 1)

    refused = [name for name, operation in OPERATIONS.items() if is_refused(operation, stores[name], held[name])]

    assert refused == ["enqueue", "schedule"]
    for store in stores.values():
        store.close()


def is_refused(operation: Operation, store: Redis, held: Held) -> bool:
    try:
        operation(store, held)
    except StoreUnavailable as exc:
        if "is out of memory; raise its 'maxmemory'" not in str(exc):
            raise
        return True
    return False
