"""Errors of an unusable server: with the store, the reason and a remedy, and without the password."""

from collections.abc import Iterator

import pytest
import redis

from tenure.backends.redis.server import Server
from tenure.errors import ConfigurationError, StoreUnavailable, TenureError
from tests.redis.asking import count, opened, refusal_at, refusal_of
from tests.redis.encryption import CERTIFICATE, own_tls
from tests.redis.proxy import Proxy
from tests.redis.scripts import script
from tests.redis.stores import Place
from tests.servers.addresses import LOOPBACK, free_port
from tests.servers.redis import OwnRedis, RedisServer


@pytest.fixture
def server(place: Place) -> Iterator[Server]:
    with opened(place.url) as server:
        yield server


def test_a_certificate_that_is_not_trusted_is_told_with_the_remedy(redis_server: RedisServer) -> None:
    with Proxy(redis_server, own_tls()) as proxy:
        assert "; give the certificate of the issuing authority with '?ssl_ca_certs='" in str(refusal_at(proxy.url))


def test_a_certificate_of_another_name_is_told_with_the_remedy(redis_server: RedisServer) -> None:
    with Proxy(redis_server, own_tls()) as proxy:
        url = f"{proxy.url.replace(LOOPBACK, 'localhost')}?ssl_ca_certs={CERTIFICATE}"

        assert str(refusal_at(url)).endswith("; use a host name from the server's certificate")


def test_tls_with_a_server_that_has_none_is_told_with_the_remedy(own_redis: OwnRedis) -> None:
    raised = refusal_at(f"{own_redis.url.replace('redis:', 'rediss:')}?timeout=1")

    assert "begin the URL with 'redis' instead of 'rediss' if the server has no TLS" in str(raised)


def test_no_tls_with_a_server_that_wants_it_is_told_with_the_remedy(redis_server: RedisServer) -> None:
    with Proxy(redis_server, own_tls()) as proxy:
        raised = refusal_at(proxy.url.replace("rediss:", "redis:"))

    assert "begin the URL with 'rediss' instead of 'redis' if the server needs TLS" in str(raised)


def test_of_tls_nothing_is_said_when_a_connection_ends_that_was_good(redis_server: RedisServer, place: Place) -> None:
    with Proxy(redis_server) as proxy, opened(proxy.url_of(place.prefix)) as server:
        proxy.drop_answer("EVALSHA")
        said = str(refusal_of(server, script("return 1"), may_repeat=False))

    assert "cannot reach" in said
    assert "TLS" not in said


@pytest.mark.parametrize("host", ["a" * 64, ".."])
def test_a_name_that_no_host_can_have_is_told(host: str) -> None:
    raised = refusal_at(f"redis://{host}")

    assert type(raised) is StoreUnavailable
    assert f": invalid host name '{host}'" in str(raised)


@pytest.mark.parametrize(
    ("words", "reason", "kind"),
    [
        ("on >secret ~* &* +@all -eval -evalsha", "this user may not use", ConfigurationError),
        ("on >secret ~* &* +@all -incrby", "this user may not use", ConfigurationError),
        ("on >secret ~other &* +@all", "this user may not use", ConfigurationError),
        ("on >other ~* &* +@all", "cannot log in to", StoreUnavailable),
        ("off >secret ~* &* +@all", "cannot log in to", StoreUnavailable),
    ],
)
def test_a_user_who_may_not_is_told_so(
    redis_server: RedisServer, place: Place, words: str, reason: str, kind: type[TenureError]
) -> None:
    place.execute("ACL", "SETUSER", place.prefix, *words.split())
    try:
        with Proxy(redis_server) as proxy:
            url = proxy.url_of(place.prefix).replace("redis://", f"redis://{place.prefix}:secret@")
            raised = refusal_at(url)
    finally:
        place.execute("ACL", "DELUSER", place.prefix)

    assert reason in str(raised)
    assert type(raised) is kind
    assert "secret" not in str(raised)


def test_a_key_of_another_program_is_told_with_the_remedy(place: Place) -> None:
    place.execute("HSET", place.key("number"), "field", 1)

    raised = refusal_at(place.url)

    assert type(raised) is ConfigurationError
    assert str(raised).endswith("choose another prefix with '?prefix='")


def test_a_database_that_is_not_there_is_told(redis_server: RedisServer) -> None:
    with Proxy(redis_server) as proxy:
        raised = refusal_at(proxy.url.removesuffix("/0") + "/12345")

    assert type(raised) is ConfigurationError
    assert "has no such database: DB index is out of range" in str(raised)


def test_a_script_with_a_fault_is_told_as_the_server_says_it(server: Server) -> None:
    raised = refusal_of(server, script("return nonsense"))

    assert type(raised) is StoreUnavailable
    assert "nonexistent global variable 'nonsense'" in str(raised)


@pytest.mark.parametrize(
    ("setting", "value", "reason"),
    [
        ("maxmemory", "100", "is out of memory; raise its 'maxmemory'"),
        ("min-replicas-to-write", "1", "has fewer replicas than its 'min-replicas-to-write'"),
    ],
)
def test_a_server_that_takes_no_changes_says_why(own_redis: OwnRedis, setting: str, value: str, reason: str) -> None:
    with opened(own_redis.url) as server, redis.Redis.from_url(own_redis.url) as client:
        client.config_set(setting, value)
        said = str(refusal_of(server))
        client.config_set(setting, 0)

        assert reason in said
        assert count(server) == 1


def test_a_server_that_became_a_replica_is_told_and_asked_again_when_it_is_none(own_redis: OwnRedis) -> None:
    with opened(f"{own_redis.url}?timeout=1") as server, redis.Redis.from_url(own_redis.url) as client:
        client.replicaof(LOOPBACK, free_port())
        said = str(refusal_of(server, may_repeat=False))
        client.replicaof("NO", "ONE")

        assert "is a replica and rejects changes; use the URL of the primary" in said
        assert count(server) == 1
