"""Build an `Address` from the caller's redis-py client: the same server and login, but separate connections."""

from typing import Any

from redis import RedisCluster
from redis.connection import ConnectionPool, SSLConnection, UnixDomainSocketConnection
from redis.sentinel import SentinelConnectionPool

from tenure.backends.redis.address import DEFAULT_HOST, DEFAULT_PORT, DEFAULT_PREFIX, Address, Node, require_prefix
from tenure.core import checks

POOL_SETTING_PREFIXES = ("maint_", "orig_", "oss_cluster_", "himport_", "cache", "event_dispatcher")
"""Prefixes of settings that tie a connection to its pool."""


def address_from(client: Any, *, prefix: str, timeout: float, connections: int) -> Address:
    """Return the address of a client's server, with the client's connection settings."""
    if isinstance(client, RedisCluster):
        first, *_ = members = client.get_nodes()
        pool = client.get_redis_connection(first).connection_pool
        nodes = tuple(Node(str(each.host), int(each.port)) for each in members)
    else:
        pool, nodes = client.connection_pool, ()
    settings = {
        name: value for name, value in pool.connection_kwargs.items() if not name.startswith(POOL_SETTING_PREFIXES)
    }
    if nodes:
        del settings["redis_connect_func"]  # the client's hook, which may send READONLY to read from replicas
    return Address(
        shown=_display_url(pool, nodes, prefix),
        connection_class=pool.connection_class,
        settings=settings,
        prefix=require_prefix(prefix),
        timeout=checks.seconds("timeout", timeout, 0.1, 3600.0),
        connections=checks.integer("connections", connections, 1, 1000),
        nodes=nodes,
    )


def _display_url(pool: ConnectionPool, nodes: tuple[Node, ...], prefix: str) -> str:
    """Return the URL of a client's server for messages, without a password."""
    settings: dict[str, Any] = pool.connection_kwargs
    database = settings.get("db") or 0
    scheme = "rediss" if issubclass(pool.connection_class, SSLConnection) else "redis"
    if nodes:
        url = f"{scheme}+cluster://{nodes[0].host}:{nodes[0].port}"
    elif isinstance(pool, SentinelConnectionPool):
        url = f"{scheme}://{pool.service_name}/{database}"
    elif issubclass(pool.connection_class, UnixDomainSocketConnection):
        url = f"unix://{settings.get('path')}"
    else:
        url = f"{scheme}://{settings.get('host', DEFAULT_HOST)}:{settings.get('port', DEFAULT_PORT)}/{database}"
    return url if prefix == DEFAULT_PREFIX else f"{url}?prefix={prefix}"
