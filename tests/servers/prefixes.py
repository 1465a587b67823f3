"""Prefixes of stores on servers that are shared: each is new, and of those that are given back nothing stays behind."""

from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from typing import Any, TypeAlias
from uuid import uuid4

import redis

from tests.servers.redis import RedisServer

Client: TypeAlias = "redis.Redis | redis.RedisCluster"
"""One of the driver, as anybody would use it."""

CLUSTER = "redis+cluster://"
AT_ONCE = 1_000


@contextmanager
def client_of(url: str) -> Iterator[Client]:
    """Give a client of a server, or of a cluster."""
    if url.startswith(CLUSTER):
        with client_of_cluster(url.replace(CLUSTER, "redis://")) as client:
            yield client
        return
    with redis.Redis.from_url(url) as alone:
        yield alone


@contextmanager
def client_of_cluster(url: str, **options: Any) -> Iterator[redis.RedisCluster]:
    """Give a client of a cluster, by one of its masters; on leaving its connections are closed.

    The driver leaves them open when it closes the client. The garbage collector would find them at some time, in the
    middle of another test, which would fail for it.
    """
    with redis.RedisCluster.from_url(url, **options) as client:
        try:
            yield client
        finally:
            for node in client.get_nodes():
                if node.redis_connection is not None:
                    node.redis_connection.connection_pool.disconnect()


def new_prefix() -> str:
    """Return a prefix that nobody has."""
    return f"tenure_{uuid4().hex}"


def keys_under(prefix: str, client: Client) -> list[str]:
    """Return what is stored under this prefix."""
    return sorted(key.decode() for key in client.scan_iter(match=f"{{{prefix}}}*", count=AT_ONCE))


def remove(prefix: str, client: Client) -> None:
    """Remove all that is stored under this prefix."""
    if keys := keys_under(prefix, client):
        client.unlink(*keys)


class Prefixes:
    """Those of one test process, with a connection to each server for all of them."""

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
