"""A separate store for each test, on each single server."""

from collections.abc import Iterator

import pytest

from tenure.backends.redis import Redis
from tests.redis.stores import Place, new_place
from tests.servers.redis import RedisServer
from tests.servers.servers import Servers, shared_redis_clusters, shared_redis_names


@pytest.fixture
def place(redis_server: RedisServer) -> Iterator[Place]:
    """A prefix on a shared server."""
    with new_place(redis_server.url) as place:
        yield place


@pytest.fixture(params=[*shared_redis_names(), *shared_redis_clusters()])
def anywhere(request: pytest.FixtureRequest, servers: Servers) -> Iterator[Place]:
    """A prefix on a shared server, and in a cluster."""
    with new_place(servers.shared_redis(request.param).url) as place:
        yield place


@pytest.fixture
def store(place: Place) -> Iterator[Redis]:
    store = place.open()
    yield store
    store.close()
