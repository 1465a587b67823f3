"""Key prefixes of stores on shared servers. A prefix is always new; `give_back` deletes its keys."""

from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from typing import Any, TypeAlias
from uuid import uuid4

import redis

from tests.servers.redis import RedisServer

Client: TypeAlias = "redis.Redis | redis.RedisCluster"
"""A client of redis-py."""

CLUSTER = "redis+cluster://"
AT_ONCE = 1_000


@contextmanager
def client_of(url: str) -> Iterator[Client]:
    """Yield a client of a server or a cluster."""
    if url.startswith(CLUSTER):
        with client_of_cluster(url.replace(CLUSTER, "redis://")) as client:
            yield client
        return
    with redis.Redis.from_url(url) as alone:
        yield alone


@contextmanager
def client_of_cluster(url: str, **options: Any) -> Iterator[redis.RedisCluster]:
    """Yield a client of a cluster, from the URL of a master; close its connections on exit.

    redis-py leaves the connections open when the client is closed. The garbage collector would report them in the
    middle of another test, and that test would fail.
    """
    with redis.RedisCluster.from_url(url, **options) as client:
        try:
            yield client
        finally:
            for node in client.get_nodes():
                if node.redis_connection is not None:
                    node.redis_connection.connection_pool.disconnect()


def new_prefix() -> str:
    """Return an unused prefix."""
    return f"tenure_{uuid4().hex}"


def keys_under(prefix: str, client: Client) -> list[str]:
    """Return the keys with the prefix."""
    return sorted(key.decode() for key in client.scan_iter(match=f"{{{prefix}}}*", count=AT_ONCE))


def remove(prefix: str, client: Client) -> None:
    """Delete the keys with the prefix."""
    if keys := keys_under(prefix, client):
        client.unlink(*keys)


class Prefixes:
    """The prefixes of one test process, with one client per server."""

    def __init__(self) -> None:
        self._clients: dict[str, Client] = {}
        self._opened = ExitStack()

    def take(self) -> str:
        return new_prefix()

    def give_back(self, server: RedisServer, prefix: str) -> None:
        if server.url not in self._clients:
            self._clients[server.url] = self._opened.enter_context(client_of(server.url))
        remove(prefix, self._clients[server.url])

    def close(self) -> None:
        self._opened.close()
