"""The servers of a test process: shared by all tests, or owned by a single test.

A server starts on first use. Test processes share the template data directory and no server, so a killed process does
not stop a server of another process.
"""

import os
from collections.abc import Iterator, Mapping
from contextlib import ExitStack, contextmanager
from pathlib import Path

from tests.servers import cluster, redis
from tests.servers.home import made_home
from tests.servers.pgbouncer import Mode, PgBouncer
from tests.servers.postgres import FAST, OwnServer, Server, given
from tests.servers.prefixes import Prefixes
from tests.servers.redis import OwnRedis, RedisServer, Settings
from tests.servers.redis_cluster import RedisCluster
from tests.servers.schemas import Schemas
from tests.servers.sessions import HANDS
from tests.tiers import EVERYTHING, TIER

GIVEN = "postgres-given"
GIVEN_REDIS = "redis-given"
REDIS_CLUSTER = "redis-cluster"


def shared_names() -> list[str]:
    """Return the names of the PostgreSQL servers that tests can share."""
    return [GIVEN] if os.environ.get("TEST_POSTGRES_DSN") else cluster.names()


def shared_redis_names() -> list[str]:
    """Return the names of the single Redis and Valkey servers that tests can share."""
    if os.environ.get("TEST_REDIS_URL"):
        return [GIVEN_REDIS]
    if not redis.names():
        raise RuntimeError(f"no Redis and no Valkey to test with; {redis.REMEDY}")
    return redis.names()


def shared_redis_clusters() -> list[str]:
    """Return the name of the shared cluster; none with TEST_REDIS_URL or below tier 2."""
    return [] if os.environ.get("TEST_REDIS_URL") or TIER < EVERYTHING else [REDIS_CLUSTER]


class Servers:
    def __init__(self, home: Path) -> None:
        self._home = home
        self.schemas = Schemas()
        self.prefixes = Prefixes()
        self._shared: dict[str, Server] = {}
        self._shared_redis: dict[str, RedisServer] = {}
        self._redis_cluster: RedisCluster | None = None
        self._running = ExitStack()
        self._running.callback(self.prefixes.close)
        self._running.callback(self.schemas.close)
        self._running.callback(HANDS.close)

    def shared(self, name: str) -> Server:
        """Return a server that the tests of the process share. It runs without fsync."""
        if name not in self._shared:
            self._shared[name] = self._start(name)
        return self._shared[name]

    @contextmanager
    def alone(
        self, name: str, settings: Mapping[str, str] | None = None, *, over_tcp: bool = True
    ) -> Iterator[OwnServer]:
        """Yield a separate server; stop and remove the server on exit."""
        server = OwnServer(cluster.prepare(name, self._home), self._home, settings, over_tcp=over_tcp)
        try:
            yield server
        finally:
            server.close()

    @contextmanager
    def pgbouncer(self, server: Server, *, mode: Mode = "transaction", sessions: int = 3) -> Iterator[PgBouncer]:
        """Yield a PgBouncer in front of a server; stop PgBouncer on exit."""
        bouncer = PgBouncer(server, self._home, mode=mode, sessions=sessions)
        try:
            yield bouncer
        finally:
            bouncer.close()

    def shared_redis(self, name: str) -> RedisServer:
        """Return a server or the cluster that the tests of the process share. It runs without persistence."""
        if name not in self._shared_redis:
            self._shared_redis[name] = self._start_redis(name)
        return self._shared_redis[name]

    @contextmanager
    def own_redis(self, name: str, settings: Settings | None = None, *, over_tcp: bool = True) -> Iterator[OwnRedis]:
        """Yield a separate server; stop and remove the server on exit."""
        server = OwnRedis(name, self._home, settings, over_tcp=over_tcp)
        try:
            yield server
        finally:
            server.close()

    @property
    def redis_cluster(self) -> RedisCluster:
        """The cluster that the tests of the process share. Tests may move slots."""
        if self._redis_cluster is None:
            self._redis_cluster = RedisCluster(redis.names()[-1], self._home)
            self._running.callback(self._redis_cluster.close)
        return self._redis_cluster

    def close(self) -> None:
        self._running.close()

    def _start(self, name: str) -> Server:
        if name == GIVEN:
            return given(os.environ["TEST_POSTGRES_DSN"])
        own = self._running.enter_context(self.alone(name, FAST, over_tcp=False))
        return Server(own.url, own.version)

    def _start_redis(self, name: str) -> RedisServer:
        if name == GIVEN_REDIS:
            return redis.given(os.environ["TEST_REDIS_URL"])
        if name == REDIS_CLUSTER:
            return RedisServer(self.redis_cluster.url, self.redis_cluster.version)
        own = self._running.enter_context(self.own_redis(name, redis.FAST, over_tcp=False))
        return RedisServer(own.url, own.version)


@contextmanager
def running_servers() -> Iterator[Servers]:
    """Yield servers for a program outside pytest; remove the servers and their data on exit."""
    with made_home() as home:
        servers = Servers(home)
        try:
            yield servers
        finally:
            servers.close()
