"""Parsing of URLs, and errors without the password."""

import re
from pathlib import Path

import pytest
from redis.connection import Connection, SSLConnection, UnixDomainSocketConnection

from tenure.backends.redis.address import Address, Node, address_of
from tenure.backends.urls import mask_password
from tenure.errors import ConfigurationError
from tests.redis.encryption import CERTIFICATE


def address(url: str) -> Address:
    return address_of(url, mask_password(url))


@pytest.mark.parametrize(
    ("url", "settings"),
    [
        ("redis://", {"host": "localhost", "port": 6379, "db": 0}),
        ("redis://db", {"host": "db", "port": 6379, "db": 0}),
        ("redis://db:7000/3", {"host": "db", "port": 7000, "db": 3}),
        ("redis://[::1]:7000/", {"host": "::1", "port": 7000, "db": 0}),
        ("redis://db?db=4", {"host": "db", "port": 6379, "db": 4}),
        ("redis://ada:a%40b%2Fc%3F@db", {"host": "db", "port": 6379, "db": 0, "username": "ada", "password": "a@b/c?"}),
        ("redis://:secret@db", {"host": "db", "port": 6379, "db": 0, "password": "secret"}),
        (
            "redis://db?username=ada&password=a%2Bb",
            {"host": "db", "port": 6379, "db": 0, "username": "ada", "password": "a+b"},
        ),
        ("redis://db?client_name=shop", {"host": "db", "port": 6379, "db": 0, "client_name": "shop"}),
        ("unix:///run/redis.sock", {"path": "/run/redis.sock", "db": 0}),
        ("unix:///run/a%20b.sock?db=2", {"path": "/run/a b.sock", "db": 2}),
        ("unix://ada:secret@/run/r.sock", {"path": "/run/r.sock", "db": 0, "username": "ada", "password": "secret"}),
        (
            "rediss://db",
            {"host": "db", "port": 6379, "db": 0, "ssl_cert_reqs": "required", "ssl_check_hostname": True},
        ),
        (
            "rediss://db?ssl_cert_reqs=none",
            {"host": "db", "port": 6379, "db": 0, "ssl_cert_reqs": "none", "ssl_check_hostname": False},
        ),
        (
            f"rediss://db?ssl_ca_certs={CERTIFICATE}&ssl_cert_reqs=optional&ssl_check_hostname=False",
            {
                "host": "db",
                "port": 6379,
                "db": 0,
                "ssl_ca_certs": str(CERTIFICATE),
                "ssl_cert_reqs": "optional",
                "ssl_check_hostname": False,
            },
        ),
    ],
)
def test_a_url_says_where_the_server_is_and_how_one_is_let_in(url: str, settings: dict[str, object]) -> None:
    assert address(url).settings == settings


@pytest.mark.parametrize(
    ("url", "kind", "nodes"),
    [
        ("redis://db", Connection, ()),
        ("rediss://db", SSLConnection, ()),
        ("unix:///run/redis.sock", UnixDomainSocketConnection, ()),
        ("redis+cluster://db:7000", Connection, (Node("db", 7000),)),
        ("rediss+cluster://db", SSLConnection, (Node("db", 6379),)),
    ],
)
def test_its_first_word_says_how_to_reach_the_server(url: str, kind: type, nodes: tuple[Node, ...]) -> None:
    found = address(url)

    assert (found.connection_class, found.nodes) == (kind, nodes)


def test_the_options_that_are_ours_have_defaults() -> None:
    plain = address("redis://db")
    said = address("redis://db?prefix=mail.2_a-B&timeout=0.5&connections=3")

    assert (plain.prefix, plain.timeout, plain.connections) == ("tenure", 10.0, 10)
    assert (said.prefix, said.timeout, said.connections) == ("mail.2_a-B", 0.5, 3)


def test_all_keys_of_a_store_are_in_one_slot() -> None:
    assert address("redis://db?prefix=mail").key("jobs") == "{mail}:jobs"


@pytest.mark.parametrize(
    ("url", "reason"),
    [
        ("redis://db?prefx=a", "has no option 'prefx'; did you mean 'prefix'?"),
        ("redis://db?retry_on_timeout=1", "has no option 'retry_on_timeout'"),
        ("redis://db?max_connections=5", "has no option 'max_connections'; did you mean 'connections'?"),
        ("redis://db?ssl_ca_certs=a", "needs TLS: begin the URL with 'rediss'"),
        ("redis://db?prefix=", "prefix must be 1 to 100 letters"),
        ("redis://db?prefix={a}", "prefix must be 1 to 100 letters"),
        ("redis://db?prefix=a%3Ab", "prefix must be 1 to 100 letters, digits, '.', '_' or '-', not 'a:b'"),
        (f"redis://db?prefix={'a' * 101}", "prefix must be 1 to 100 letters"),
        ("redis://db?timeout=0", "timeout must be a number from 0.1 to 3600, not '0'"),
        ("redis://db?timeout=-1", "timeout must be a number"),
        ("redis://db?connections=1001", "connections must be a whole number from 1 to 1000, not '1001'"),
        ("redis://db?connections=2.5", "connections must be a whole number from 1 to 1000, not '2.5'"),
        ("redis://db/app", "the database must be a number such as 0, not 'app'"),
        ("redis://db/99999999999", "the database must be a number"),
        ("redis://db?db=-1", "the database must be a number"),
        ("redis://db/0#1", "the database must be a number"),
        ("redis+cluster://db/1", "a cluster has only database 0, not 1"),
        ("redis://db:70000", "the port must be a number up to 65535"),
        ("redis://db:port", "the port must be a number up to 65535"),
        ("unix://run/redis.sock", "give the absolute path of a socket, 'unix:///run/redis.sock'"),
        ("redis://[::1", "the host must be a name, or an address such as '127.0.0.1' or '[::1]'"),
        ("unix://", "give the absolute path of a socket"),
        ("rediss://db?ssl_cert_reqs=maybe", "ssl_cert_reqs must be 'required' or 'optional' or 'none', not 'maybe'"),
        ("rediss://db?ssl_check_hostname=maybe", "ssl_check_hostname must be 'true' or"),
        ("rediss://db?ssl_ca_certs=/no/such.pem", "ssl_ca_certs: file '/no/such.pem' not found"),
    ],
)
def test_a_url_that_cannot_be_used_is_told_with_the_reason(url: str, reason: str) -> None:
    with pytest.raises(ConfigurationError, match=re.escape(reason)):
        address(url)


@pytest.mark.parametrize(
    "url",
    [
        "redis://ada:in@secret@db",
        "redis://ada:in/secret@db",
        "redis://ada:in?secret@db",
        "redis://ada:in#secret@db",
        "redis://ada:in[secret@db",
        "redis://ada:secret@\N{ACCOUNT OF}db",
        "redis://:secret@db:port",
        "redis://:sec%72et@db/app",
        "redis://db?password=secret&prefx=a",
        "unix://:secret@run/redis.sock",
        "unix:///run/redis.sock?password=secret&db=x",
        "redis+cluster://:secret@db/1",
        "rediss://db?ssl_password=secret&ssl_cert_reqs=maybe",
    ],
)
def test_a_url_that_cannot_be_used_is_told_without_its_password(url: str) -> None:
    with pytest.raises(ConfigurationError) as told:
        address(url)

    assert "secret" not in str(told.value)
    assert "sec%72et" not in str(told.value)


def test_an_address_is_shown_without_its_password(tmp_path: Path) -> None:
    key = tmp_path / "key.pem"
    key.touch()

    found = address(f"rediss://ada:secret@db?ssl_keyfile={key}&ssl_password=secret")

    assert "ada" in repr(found)
    assert "secret" not in repr(found)
