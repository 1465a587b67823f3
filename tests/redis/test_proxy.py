"""The proxy cuts exactly at the chosen message of the protocol."""

import asyncio
import threading
from collections.abc import Callable, Iterator
from typing import Any

import pytest
import redis
from redis.backoff import NoBackoff
from redis.retry import Retry

from tenure.testing.conformance.building import build_record
from tests.processes.stage import PATIENCE, until
from tests.proxies.points import before, from_client, from_server, within
from tests.redis.encryption import CERTIFICATE, own_tls
from tests.redis.proxy import Proxy
from tests.redis.stores import Place
from tests.redis.wire import ERROR, LIST, NUMBER, PUSH, SIMPLE, TEXT, Message, next_message
from tests.servers.redis import OwnRedis, RedisServer
from tests.servers.servers import Servers, shared_redis_names

ONCE = Retry(NoBackoff(), 0)


class Counter:
    """A counter on the server: the number of executed requests, even if the response is lost."""

    def __init__(self, place: Place) -> None:
        self._place = place

    def told_by(self, client: redis.Redis) -> Any:
        return client.incr(self._place.key("number"))

    @property
    def value(self) -> int:
        return int(self._place.execute("GET", self._place.key("number")) or 0)


@pytest.fixture
def counter(place: Place) -> Counter:
    return Counter(place)


@pytest.fixture
def proxy(redis_server: RedisServer) -> Iterator[Proxy]:
    with Proxy(redis_server) as proxy:
        yield proxy


def client_of(proxy: Proxy, **options: Any) -> redis.Redis:
    """Return a client without retries."""
    return redis.Redis.from_url(proxy.url, retry=ONCE, **options)


@pytest.fixture
def client(proxy: Proxy) -> Iterator[redis.Redis]:
    with client_of(proxy) as client:
        yield client


def in_a_thread(work: Callable[[], object]) -> threading.Thread:
    thread = threading.Thread(target=work, daemon=True)
    thread.start()
    return thread


def read(octets: bytes) -> list[Message]:
    """Return the messages of a server that sends only this and closes the connection."""

    async def messages() -> list[Message]:
        reader = asyncio.StreamReader()
        reader.feed_data(octets)
        reader.feed_eof()
        found = []
        while (message := await next_message(reader, "server")) is not None:
            found.append(message)
        return found

    return asyncio.run(messages())


@pytest.mark.parametrize(
    "octets",
    [
        b"+OK\r\n",
        b"-ERR no\r\n",
        b":7\r\n",
        b"$-1\r\n",
        b"$0\r\n\r\n",
        b"$4\r\na\r\nb\r\n",
        b"*-1\r\n",
        b"*0\r\n",
        b"*2\r\n*1\r\n:1\r\n$1\r\na\r\n",
        b"%1\r\n+a\r\n*1\r\n_\r\n",
        b"~2\r\n#t\r\n,1.5\r\n",
        b">2\r\n+message\r\n+hello\r\n",
        b"|1\r\n+ttl\r\n:5\r\n$1\r\na\r\n",
        b"=5\r\ntxt:a\r\n",
        b"!6\r\nERR no\r\n",
        b"(123456789012345678901234567890\r\n",
    ],
)
def test_a_message_ends_where_it_ends_and_one_that_does_not_is_none(octets: bytes) -> None:
    last = Message("server", b"+last\r\n")

    assert read(octets + last.octets) == [Message("server", octets), last]
    assert read(octets[:-1]) == []


@pytest.mark.parametrize(
    ("octets", "type"),
    [
        (b"*2\r\n$7\r\nevalsha\r\n$3\r\nabc\r\n", "EVALSHA"),
        (b"*1\r\n$4\r\nPING\r\n", "PING"),
        (b"ping\r\n", "PING"),
        (b"GET key\r\n", "GET"),
    ],
)
def test_a_request_is_called_by_its_first_word_in_capitals(octets: bytes, type: str) -> None:
    assert Message("client", octets).type == type


def test_what_a_server_says_is_called_by_its_first_character() -> None:
    said = read(b"+OK\r\n-ERR no\r\n:7\r\n$1\r\na\r\n*0\r\n>1\r\n+a\r\n")

    assert [each.type for each in said] == [SIMPLE, ERROR, NUMBER, TEXT, LIST, PUSH]


def test_what_is_said_passes_in_both_directions_and_is_recorded(
    proxy: Proxy, client: redis.Redis, counter: Counter
) -> None:
    answer = counter.told_by(client)

    request, said = proxy.passed[-2:]
    assert answer == 1
    assert (request.sender, request.type) == ("client", "INCRBY")
    assert (said.type, said.octets) == (NUMBER, b":1\r\n")


@pytest.mark.parametrize("protocol", [2, 3])
def test_much_passes_in_either_version_of_the_protocol(proxy: Proxy, place: Place, protocol: int) -> None:
    texts = {f"field-{number}": "x" * 100_000 + "\r\n" for number in range(20)}

    with client_of(proxy, protocol=protocol, decode_responses=True) as client:
        client.hset(place.key("hash"), mapping=texts)
        found = client.hgetall(place.key("hash"))

    assert found == texts


def test_a_request_whose_answer_is_dropped_was_done(proxy: Proxy, client: redis.Redis, counter: Counter) -> None:
    cut = proxy.drop_answer("INCRBY")

    with pytest.raises(redis.ConnectionError):
        counter.told_by(client)

    assert cut.is_done
    assert counter.value == 1
    assert proxy.passed[-1].type == "INCRBY"


def test_a_request_that_is_dropped_was_not_done(proxy: Proxy, client: redis.Redis, counter: Counter) -> None:
    cut = proxy.drop_request("INCRBY")

    with pytest.raises(redis.ConnectionError):
        counter.told_by(client)

    assert cut.is_done
    assert counter.value == 0


def test_the_request_of_that_number_is_the_one_that_is_dropped(
    proxy: Proxy, client: redis.Redis, counter: Counter
) -> None:
    cut = proxy.drop_answer("INCRBY", number=3)

    counter.told_by(client)
    counter.told_by(client)
    assert not cut.is_done
    with pytest.raises(redis.ConnectionError):
        counter.told_by(client)

    assert counter.value == 3


def test_a_cut_happens_once_and_the_next_connection_is_as_any(
    proxy: Proxy, client: redis.Redis, counter: Counter
) -> None:
    proxy.drop_request("INCRBY")
    with pytest.raises(redis.ConnectionError):
        counter.told_by(client)

    assert counter.told_by(client) == 1


def test_a_cut_within_an_answer_passes_one_half_of_it(proxy: Proxy, client: redis.Redis, place: Place) -> None:
    client.set(place.key("text"), "b" * 1_000)
    cut = proxy.cut(within(from_server("b" * 1_000, TEXT)))

    with pytest.raises(redis.ConnectionError):
        client.get(place.key("text"))

    assert cut.is_done
    assert proxy.passed[-1].type == "GET"


def test_a_request_is_found_by_what_it_says(proxy: Proxy, client: redis.Redis, place: Place) -> None:
    cut = proxy.cut(before(from_client(place.key("one"))))

    client.set(place.key("two"), 2)
    assert not cut.is_done
    with pytest.raises(redis.ConnectionError):
        client.set(place.key("one"), 1)

    assert place.keys() == [place.key("two")]


def test_the_server_goes_on_while_its_answers_are_held(proxy: Proxy, client: redis.Redis, counter: Counter) -> None:
    client.ping()
    with proxy.holding() as hold:
        asking = in_a_thread(lambda: counter.told_by(client))
        hold.wait()
        until(lambda: counter.value == 1)
        assert asking.is_alive()

    asking.join(PATIENCE)
    assert not asking.is_alive()


def test_what_disappears_in_a_black_hole_is_not_done_and_not_answered(proxy: Proxy, counter: Counter) -> None:
    with client_of(proxy, socket_timeout=0.2) as client, proxy.black_hole(), pytest.raises(redis.TimeoutError):
        counter.told_by(client)

    assert counter.value == 0


def test_connections_can_be_refused_for_a_while(proxy: Proxy, client: redis.Redis, counter: Counter) -> None:
    counter.told_by(client)

    with proxy.refusing():
        with client_of(proxy) as other, pytest.raises(redis.ConnectionError, match="refused"):
            counter.told_by(other)
        assert counter.told_by(client) == 2

    with client_of(proxy) as other:
        assert counter.told_by(other) == 3


def test_what_is_published_passes(client: redis.Redis, place: Place) -> None:
    with client.pubsub() as listening:
        listening.subscribe(place.key("channel"))
        until(lambda: listening.get_message(timeout=1))

        place.execute("PUBLISH", place.key("channel"), "hello")

        message = until(lambda: listening.get_message(timeout=1))
    assert message["data"] == b"hello"


def test_a_server_on_a_port_is_found_again_when_it_was_started_again(own_redis: OwnRedis) -> None:
    with Proxy(own_redis) as proxy, client_of(proxy) as client:
        own_redis.stop()
        with pytest.raises(redis.ConnectionError):
            client.ping()

        own_redis.start()

        assert client.ping()


def test_who_logs_in_and_to_which_database_stays_in_the_url(servers: Servers) -> None:
    server = servers.shared_redis(shared_redis_names()[-1])
    tcp = RedisServer("redis://ada:secret@localhost:7000/3?timeout=1", "9")
    unix = RedisServer(f"{server.url}?db=2", server.version)

    with Proxy(tcp) as proxy:
        assert proxy.url == f"redis://ada:secret@127.0.0.1:{proxy.port}/3"
        assert proxy.url_of("one") == f"{proxy.url}?prefix=one"
    with Proxy(unix) as proxy:
        assert proxy.url == f"redis://127.0.0.1:{proxy.port}/2"


def test_a_proxy_speaks_tls_to_who_trusts_its_certificate(redis_server: RedisServer, counter: Counter) -> None:
    with Proxy(redis_server, own_tls()) as proxy:
        with client_of(proxy, ssl_ca_certs=str(CERTIFICATE)) as client:
            assert counter.told_by(client) == 1
        with client_of(proxy) as client, pytest.raises(redis.ConnectionError, match="certificate verify failed"):
            counter.told_by(client)

    assert proxy.url.startswith("rediss://")


def test_what_is_cut_and_encrypted_was_done_all_the_same(redis_server: RedisServer, counter: Counter) -> None:
    with Proxy(redis_server, own_tls()) as proxy, client_of(proxy, ssl_ca_certs=str(CERTIFICATE)) as client:
        proxy.drop_answer("INCRBY")

        with pytest.raises(redis.ConnectionError):
            counter.told_by(client)

    assert counter.value == 1


def test_a_store_is_opened_through_a_proxy(proxy: Proxy, place: Place) -> None:
    through = Place(proxy.url, place.prefix).open()

    through.enqueue([build_record()])
    through.close()

    assert any(each.type == "EVALSHA" for each in proxy.passed)
    assert place.keys() != []
