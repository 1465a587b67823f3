"""A store from a caller's client: same server and login, separate connections, and the client stays untouched."""

from collections.abc import Iterator
from contextlib import ExitStack, closing
from pathlib import Path
from typing import Any

import pytest
import redis
import redis.asyncio
from redis.sentinel import Sentinel as SentinelClient

import tenure
from tenure.backends.redis.client_address import address_from
from tenure.backends.redis.server import Server
from tenure.errors import ConfigurationError, StoreUnavailable
from tests.redis.asking import count
from tests.redis.encryption import CERTIFICATE, own_tls
from tests.redis.proxy import Proxy
from tests.redis.scripts import COUNT
from tests.redis.sentinel import SERVICE, Sentinel
from tests.redis.stores import Place, new_place
from tests.servers.addresses import LOOPBACK
from tests.servers.prefixes import client_of_cluster
from tests.servers.redis import OwnRedis, RedisServer, names
from tests.servers.redis_cluster import RedisCluster


class Vault(redis.CredentialProvider):
    """Returns the login of a user without a password."""

    is_open = True

    def get_credentials(self) -> tuple[str, str]:
        if not self.is_open:
            raise LookupError("the vault is closed")
        return "default", "any"


@pytest.fixture
def proxy(redis_server: RedisServer) -> Iterator[Proxy]:
    with Proxy(redis_server) as proxy:
        yield proxy


def server_of(client: Any, prefix: str) -> Server:
    return Server(address_from(client, prefix=prefix, timeout=10, connections=10), clock=None)


def round_trip(jobs: tenure.Jobs) -> bool:
    """Return whether an enqueued job can be claimed."""
    with jobs:
        id = jobs.enqueue("send", {"to": "für Ada"})
        with jobs.claim() as (claim,):
            return claim.job.id == id and claim.job.payload == {"to": "für Ada"}


@pytest.mark.parametrize(
    "options",
    [{}, {"decode_responses": True}, {"protocol": 3}, {"encoding": "latin-1"}, {"db": 3}, {"socket_timeout": 0.001}],
)
def test_a_client_is_a_store_however_it_is_set(proxy: Proxy, place: Place, options: dict[str, Any]) -> None:
    with redis.Redis(host=LOOPBACK, port=proxy.port, **options) as client:
        assert round_trip(tenure.Jobs(tenure.RedisStore(client, prefix=place.prefix)))
    with redis.Redis(host=LOOPBACK, port=proxy.port, db=options.get("db", 0)) as patient:
        patient.delete(*patient.keys(f"{{{place.prefix}}}*"))


def test_a_client_alone_names_the_store_with_the_usual_prefix(own_redis: OwnRedis) -> None:
    with redis.Redis.from_url(own_redis.url) as client, tenure.Jobs(client) as jobs:
        id = jobs.enqueue("send", {})

        with tenure.Jobs(own_redis.url) as same, tenure.Jobs(tenure.RedisStore(client, prefix="mail")) as other:
            assert [job.id for job in same.find()] == [id]
            assert list(other.find()) == []


def test_a_client_by_a_socket_is_a_store(redis_server: RedisServer, place: Place) -> None:
    with redis.Redis.from_url(redis_server.url) as client:
        assert round_trip(tenure.Jobs(tenure.RedisStore(client, prefix=place.prefix)))


def test_a_client_with_tls_is_a_store(redis_server: RedisServer, place: Place) -> None:
    with (
        Proxy(redis_server, own_tls()) as proxy,
        redis.Redis.from_url(proxy.url, ssl_ca_certs=str(CERTIFICATE)) as client,
    ):
        assert round_trip(tenure.Jobs(tenure.RedisStore(client, prefix=place.prefix)))


def test_a_client_of_a_cluster_is_a_store(redis_cluster: RedisCluster) -> None:
    with (
        new_place(redis_cluster.url) as place,
        client_of_cluster(redis_cluster.masters[1].url) as client,
    ):
        assert round_trip(tenure.Jobs(tenure.RedisStore(client, prefix=place.prefix)))


@pytest.mark.parametrize("name", names())
def test_a_client_by_a_sentinel_is_a_store(own_redis: OwnRedis, name: str, tmp_path: Path) -> None:
    with closing(Sentinel(name, tmp_path, own_redis)) as sentinel, ExitStack() as opened:
        knowing = SentinelClient([(LOOPBACK, sentinel.port)])
        for each in knowing.sentinels:
            opened.enter_context(each)

        with knowing.master_for(SERVICE) as client:
            assert round_trip(tenure.Jobs(client))


def test_a_client_with_a_login_is_let_in(proxy: Proxy, place: Place) -> None:
    place.execute("ACL", "SETUSER", place.prefix, "on", ">secret", "~*", "&*", "+@all")
    try:
        with redis.Redis(host=LOOPBACK, port=proxy.port, username=place.prefix, password="secret") as client:
            store = tenure.RedisStore(client, prefix=place.prefix)
            assert round_trip(tenure.Jobs(store))
            assert "secret" not in f"{store!r} {tenure.Jobs(store)!r}"
    finally:
        place.execute("ACL", "DELUSER", place.prefix)


def test_a_login_that_cannot_be_had_just_now_is_told_and_tried_again(proxy: Proxy, place: Place) -> None:
    provider = Vault()
    with redis.Redis(host=LOOPBACK, port=proxy.port, credential_provider=provider) as client:
        jobs = tenure.Jobs(tenure.RedisStore(client, prefix=place.prefix))
        provider.is_open = False
        with pytest.raises(StoreUnavailable, match=r"cannot reach .*: LookupError: the vault is closed"):
            jobs.stats()
        provider.is_open = True

        assert round_trip(jobs)


def test_what_a_client_would_send_again_is_sent_once(proxy: Proxy, place: Place) -> None:
    client = redis.Redis.from_url(proxy.url, retry_on_timeout=True, retry_on_error=[redis.ConnectionError])
    with client, closing(server_of(client, place.prefix)) as server:
        count(server)
        proxy.drop_answer("EVALSHA")

        with pytest.raises(StoreUnavailable):
            server.run(COUNT, [1], may_repeat=False)

        assert count(server) == 3


def test_a_client_stays_open_and_its_connections_stay_its_own(proxy: Proxy, place: Place) -> None:
    with redis.Redis.from_url(proxy.url, max_connections=1) as client:
        with client.client() as held:
            held.ping()
            assert round_trip(tenure.Jobs(tenure.RedisStore(client, prefix=place.prefix)))

        assert client.ping()


def test_a_store_goes_on_when_the_client_is_closed(proxy: Proxy, place: Place) -> None:
    client = redis.Redis.from_url(proxy.url)
    jobs = tenure.Jobs(tenure.RedisStore(client, prefix=place.prefix))
    client.close()

    assert round_trip(jobs)


@pytest.mark.parametrize("kind", [redis.asyncio.Redis, redis.asyncio.RedisCluster])
def test_a_client_that_has_to_be_awaited_is_refused_with_the_remedy(kind: Any) -> None:
    client = kind(host="db")

    for make in (lambda: tenure.Jobs(client).stats(), lambda: tenure.RedisStore(client)):
        with pytest.raises(ConfigurationError, match=r"is an async client; pass a redis\.Redis or a URL"):
            make()


def test_what_is_no_client_is_refused() -> None:
    with pytest.raises(ConfigurationError, match=r"client must be a redis\.Redis or .*, not 'redis:"):
        tenure.RedisStore("redis://db")  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("options", "reason"),
    [
        ({"prefix": "{a}"}, "prefix must be 1 to 100 letters"),
        ({"timeout": 0}, "timeout must be 0.1 to 3,600 seconds, not 0"),
        ({"connections": 0}, "connections must be 1 to 1,000, not 0"),
        ({"prefx": "a"}, "RedisStore has no option 'prefx'; did you mean 'prefix'?"),
    ],
)
def test_an_option_that_cannot_be_used_is_refused(options: dict[str, Any], reason: str) -> None:
    with redis.Redis() as client, pytest.raises(ConfigurationError) as told:
        tenure.RedisStore(client, **options)

    assert reason in str(told.value)


@pytest.mark.parametrize(
    ("client", "shown"),
    [
        (redis.Redis(host="db", port=7000, db=2, password="secret"), "redis://db:7000/2"),
        (redis.Redis(host="db", ssl=True), "rediss://db:6379/0"),
        (redis.Redis(unix_socket_path="/run/redis.sock"), "unix:///run/redis.sock"),
        (redis.Redis.from_url("redis://db"), "redis://db:6379/0"),
        (SentinelClient([("db", 1)]).master_for("jobs"), "redis://jobs/0"),
    ],
)
def test_jobs_say_where_a_client_leads(client: redis.Redis, shown: str) -> None:
    assert repr(tenure.Jobs(client)) == f"<Jobs in {shown}>"
    assert repr(tenure.Jobs(tenure.RedisStore(client, prefix="mail"))) == f"<Jobs in {shown}?prefix=mail>"
