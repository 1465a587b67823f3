"""A listener receives the messages of its channel, and detects a broken connection."""

import logging
from collections.abc import Iterator
from contextlib import closing
from queue import SimpleQueue

import pytest

from tenure.backends.redis import listener
from tenure.backends.redis.listener import Listener
from tenure.backends.redis.server import Server
from tests.processes.stage import PATIENCE, until
from tests.redis.asking import opened
from tests.redis.proxy import Proxy
from tests.redis.stores import Place
from tests.servers.redis import FAST, RedisServer, names
from tests.servers.servers import Servers


class Ear:
    """A listener, and its calls."""

    def __init__(self, server: Server, channel: str) -> None:
        self.heard: SimpleQueue[str] = SimpleQueue()
        self.changes: SimpleQueue[bool] = SimpleQueue()
        self.listener = Listener(server, channel, on_notification=self.heard.put, on_change=self._note)

    def open(self) -> "Ear":
        """Wait until the listener is connected."""
        self.listener.ensure_listening()
        assert self.changes.get(timeout=PATIENCE)
        return self

    def next(self) -> str:
        return self.heard.get(timeout=PATIENCE)

    def close(self) -> None:
        self.listener.close()

    def _note(self) -> None:
        self.changes.put(self.listener.is_connected)


@pytest.fixture
def proxy(redis_server: RedisServer) -> Iterator[Proxy]:
    with Proxy(redis_server) as proxy:
        yield proxy


@pytest.fixture
def server(proxy: Proxy, place: Place) -> Iterator[Server]:
    with opened(f"{proxy.url_of(place.prefix)}&client_name={place.prefix}") as server:
        yield server


@pytest.fixture
def ear(server: Server, place: Place) -> Iterator[Ear]:
    with closing(Ear(server, place.key("channel"))) as ear:
        yield ear


def publish(place: Place, message: str, channel: str = "channel") -> int:
    """Return the number of receivers."""
    return int(place.execute("PUBLISH", place.key(channel), message))


def subscribers(place: Place) -> int:
    return int(place.execute("PUBSUB", "NUMSUB", place.key("channel"))[1])


def test_what_is_published_on_its_channel_is_heard_and_nothing_else(ear: Ear, place: Place) -> None:
    ear.open()

    publish(place, "of another", "another channel")
    publish(place, "für")
    publish(place, "second")

    assert [ear.next(), ear.next()] == ["für", "second"]


def test_what_is_no_text_is_heard_as_well_as_can_be(ear: Ear, place: Place) -> None:
    ear.open()

    place.execute("PUBLISH", place.key("channel"), b"\xff")  # type: ignore[arg-type]
    publish(place, "second")

    assert [ear.next(), ear.next()] == ["\N{REPLACEMENT CHARACTER}", "second"]


def test_it_does_not_hear_before_anybody_waits(ear: Ear, place: Place) -> None:
    assert not ear.listener.is_connected
    assert publish(place, "early") == 0


def test_it_hears_again_after_a_broken_connection_and_says_so_each_time(ear: Ear, proxy: Proxy, place: Place) -> None:
    ear.open()
    proxy.cut_all()

    changes = [ear.changes.get(timeout=PATIENCE) for _ in range(2)]
    publish(place, "after it")

    assert changes == [False, True]
    assert ear.next() == "after it"


def test_it_hears_again_after_a_restart_of_the_server(servers: Servers) -> None:
    with servers.own_redis(names()[-1], FAST) as own, opened(own.url) as server, closing(Ear(server, "c")) as ear:
        ear.open()
        own.kill()
        assert not ear.changes.get(timeout=PATIENCE)
        own.start()

        assert ear.changes.get(timeout=PATIENCE)


def test_a_connection_on_which_nothing_comes_any_more_is_noticed(
    ear: Ear, proxy: Proxy, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(listener, "PING_INTERVAL", 0.1)
    monkeypatch.setattr(listener, "PING_TIMEOUT", 0.1)
    ear.open()

    with proxy.black_hole():
        hears = ear.changes.get(timeout=PATIENCE)

    assert not hears
    assert ear.changes.get(timeout=PATIENCE)


def test_a_silence_that_the_server_ends_is_no_trouble(ear: Ear, proxy: Proxy, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(listener, "PING_INTERVAL", 0.05)
    ear.open()

    until(lambda: [message.type for message in proxy.passed].count("PING") >= 3)

    assert ear.listener.is_connected
    assert ear.changes.empty()


def test_a_user_who_may_not_listen_is_told_so_once_and_nothing_more_is_tried(
    redis_server: RedisServer, place: Place, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.INFO, "tenure.backends.redis.listener")
    place.execute("ACL", "SETUSER", place.prefix, "on", "nopass", "~*", "+@all", "resetchannels")
    try:
        with Proxy(redis_server) as proxy:
            url = proxy.url_of(place.prefix).replace("redis://", f"redis://{place.prefix}:any@")
            with opened(url) as server, closing(Ear(server, place.key("channel"))) as ear:
                ear.listener.ensure_listening()
                hears = ear.changes.get(timeout=PATIENCE)
                until(lambda: ear.listener._thread is None)
                ear.listener.ensure_listening()
                is_trying = ear.listener._thread is not None
    finally:
        place.execute("ACL", "DELUSER", place.prefix)

    (said,) = [record.getMessage() for record in caplog.records if record.name == listener.__name__]
    assert (hears, is_trying) == (False, False)
    assert said.startswith("SUBSCRIBE connection lost; polling once a second until it is back: ")


def test_it_leaves_when_it_is_closed_and_is_not_there_for_a_message(ear: Ear, place: Place) -> None:
    ear.open()

    ear.close()

    assert ear.listener._thread is None
    until(lambda: subscribers(place) == 0)
    ear.listener.ensure_listening()
    assert ear.listener._thread is None


def test_it_leaves_when_nobody_waits_for_long_and_comes_back(
    ear: Ear, place: Place, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(listener, "LISTENER_IDLE_TTL", 0.1)
    ear.open()
    until(lambda: subscribers(place) == 0)
    monkeypatch.undo()

    ear.open()

    assert publish(place, "after it") == 1
    assert ear.next() == "after it"
