"""URLs of a Redis store, and the errors without the driver and for missing features."""

import subprocess
import sys
from contextlib import closing

import pytest
import redis

import tenure
from tenure.backends.memory import Memory
from tenure.backends.redis import Redis
from tenure.backends.urls import REDIS_SCHEMES, is_shared, open_backend, printable_sql_of
from tenure.errors import ConfigurationError
from tests.redis.encryption import CERTIFICATE, own_tls
from tests.redis.proxy import Proxy
from tests.redis.stores import Place
from tests.servers.redis import RedisServer

WITHOUT_THE_DRIVER = """
import sys

sys.modules["redis"] = None
import tenure

try:
    tenure.Jobs("redis://ada:secret@db").stats()
except tenure.ConfigurationError as exc:
    print(exc)
"""


@pytest.mark.parametrize("scheme", REDIS_SCHEMES)
def test_each_scheme_opens_a_store_and_asks_nobody(scheme: str) -> None:
    url = "unix:///run/redis.sock" if scheme == "unix" else f"{scheme}://db"

    with closing(open_backend(url)) as store:
        assert isinstance(store, Redis)


def test_a_store_is_the_same_by_whichever_way_it_is_reached(redis_server: RedisServer, place: Place) -> None:
    with Proxy(redis_server) as plain, Proxy(redis_server, own_tls()) as encrypted:
        encrypted_url = f"{encrypted.url_of(place.prefix)}&ssl_ca_certs={CERTIFICATE}"
        with tenure.Jobs(plain.url_of(place.prefix)) as one, tenure.Jobs(encrypted_url) as other:
            id = one.enqueue("send", {})

            assert [job.id for job in other.find()] == [id]


def test_without_the_driver_its_extra_is_named() -> None:
    ran = subprocess.run([sys.executable, "-c", WITHOUT_THE_DRIVER], capture_output=True, text=True, check=True)

    assert ran.stdout.startswith("'redis://ada:***@db' needs redis, which cannot be imported")
    assert ran.stdout.endswith("Run `pip install 'tenure[redis]'`\n")


def test_it_has_no_sql_to_print() -> None:
    with pytest.raises(ConfigurationError, match=r"'redis://ada:\*\*\*@db' does not use SQL"):
        printable_sql_of("redis://ada:secret@db")


def test_processes_share_it_however_it_is_named() -> None:
    with redis.Redis() as client:
        assert is_shared("redis://db")
        assert is_shared(client)
        assert is_shared(tenure.RedisStore(client))
        assert not is_shared("memory://")
        assert not is_shared(Memory())
