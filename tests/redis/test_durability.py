"""A server that evicts jobs is rejected; a server that may lose jobs is logged once."""

import logging
from contextlib import closing

import pytest
import redis

from tenure.backends.redis.durability import ServerCheck
from tenure.errors import ConfigurationError, StoreUnavailable
from tests.redis.asking import count, opened, refusal_at, server_at
from tests.redis.proxy import Proxy
from tests.redis.stores import Place
from tests.servers.addresses import LOOPBACK, free_port
from tests.servers.redis import DURABLE, FAST, OwnRedis, RedisServer, Settings, names
from tests.servers.servers import Servers

NEWEST = names()[-1]


def said_of(url: str, caplog: pytest.LogCaptureFixture) -> list[tuple[int, str]]:
    """Return the log of a server that is used on two connections."""
    caplog.set_level(logging.INFO, "tenure.backends.redis.durability")
    with opened(url) as server, server._pool.connection():
        count(server)
    return [(record.levelno, record.getMessage()) for record in caplog.records]


@pytest.mark.parametrize("policy", ["allkeys-lru", "volatile-ttl", "allkeys-random"])
def test_a_server_that_throws_keys_away_is_refused_with_the_remedy(own_redis: OwnRedis, policy: str) -> None:
    with redis.Redis.from_url(own_redis.url) as client:
        client.config_set("maxmemory-policy", policy)

    raised = refusal_at(own_redis.url)

    assert type(raised) is ConfigurationError
    assert f"its 'maxmemory-policy' is {policy!r}; set 'maxmemory-policy' to 'noeviction'" in str(raised)


def test_a_server_that_is_refused_is_asked_nothing_else_and_taken_when_it_is_set_right(own_redis: OwnRedis) -> None:
    with redis.Redis.from_url(own_redis.url) as client, closing(server_at(own_redis.url)) as server:
        client.config_set("maxmemory-policy", "allkeys-lru")
        with pytest.raises(ConfigurationError):
            count(server)
        client.config_set("maxmemory-policy", "noeviction")

        assert count(server) == 1


def test_a_server_that_was_restarted_is_looked_at_again(servers: Servers) -> None:
    with servers.own_redis(NEWEST, FAST) as own, opened(own.url) as server:
        own.kill()
        own._configuration.write_text(own._configuration.read_text() + "maxmemory-policy allkeys-lru\n")
        own.start()

        with pytest.raises(ConfigurationError, match="'maxmemory-policy' is 'allkeys-lru'"):
            count(server)


def test_a_replica_is_refused_at_once_and_names_its_primary(own_redis: OwnRedis) -> None:
    port = free_port()
    with redis.Redis.from_url(own_redis.url) as client:
        client.replicaof(LOOPBACK, port)

    raised = refusal_at(own_redis.url)

    assert type(raised) is StoreUnavailable
    assert "is a replica and rejects changes; use the URL of the primary" in str(raised)
    assert f"its primary is {LOOPBACK}:{port}" in str(raised)


@pytest.mark.parametrize(
    ("version", "is_fit"), [("2.8.0", False), ("6.0.16", False), ("6.2.0", True), ("10.0.0", True), ("unstable", True)]
)
def test_a_server_that_is_too_old_is_refused(version: str, is_fit: bool) -> None:  # noqa: FBT001 - a column
    fitness = ServerCheck(server_at("redis://db").address)

    def refused() -> str:
        try:
            fitness._reject_unsuitable({"redis_version": version})
        except ConfigurationError as exc:
            return str(exc)
        return ""

    assert refused() == ("" if is_fit else f"'redis://db' runs Redis {version}; use Redis 6.2 or later, or Valkey")


@pytest.mark.parametrize(
    ("settings", "losses"),
    [
        (FAST, "a crash loses all jobs, a power cut loses all jobs"),
        (
            {"save": "3600 1", "appendonly": "no"},
            "a crash loses everything since the last snapshot, a power cut loses everything since the last snapshot",
        ),
        ({**DURABLE, "appendfsync": "everysec"}, "a crash loses nothing, a power cut loses up to one second of writes"),
        (
            {**DURABLE, "appendfsync": "no"},
            "a crash loses nothing, a power cut loses the writes that the kernel had not flushed, often 30 seconds",
        ),
    ],
)
@pytest.mark.parametrize("name", names())
def test_what_a_server_may_lose_is_said_once(
    servers: Servers, caplog: pytest.LogCaptureFixture, name: str, settings: Settings, losses: str
) -> None:
    with servers.own_redis(name, settings) as own:
        said = said_of(own.url, caplog)

    assert said == [(logging.WARNING, f"server may lose jobs: {losses}; see docs/redis.md")]


def test_of_a_server_that_loses_nothing_nothing_is_said(own_redis: OwnRedis, caplog: pytest.LogCaptureFixture) -> None:
    assert said_of(own_redis.url, caplog) == []


@pytest.mark.parametrize("command", ["config", "info"])
def test_a_server_that_may_not_be_looked_at_is_used_and_that_is_said_once(
    redis_server: RedisServer, place: Place, caplog: pytest.LogCaptureFixture, command: str
) -> None:
    place.execute("ACL", "SETUSER", place.prefix, "on", "nopass", "~*", "&*", "+@all", f"-{command}")
    try:
        with Proxy(redis_server) as proxy:
            said = said_of(proxy.url_of(place.prefix).replace("redis://", f"redis://{place.prefix}:any@"), caplog)
    finally:
        place.execute("ACL", "DELUSER", place.prefix)

    ((level, message),) = said
    assert level == logging.INFO
    assert message.startswith("persistence settings of the server not readable: ")
    assert command in message
