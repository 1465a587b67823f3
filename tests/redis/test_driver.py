"""A script is sent once, on an exclusive connection, and repeated only if that is safe."""

import json
import signal
import subprocess
import sys
import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from functools import partial

import pytest
import redis

from tenure.backends.redis.server import Server
from tenure.errors import StoreUnavailable
from tests.processes.stage import PATIENCE, until
from tests.proxies.points import from_server, within
from tests.proxies.script import Hold
from tests.redis.asking import count, in_a_thread, opened, refusal_at, refusal_of
from tests.redis.encryption import CERTIFICATE, own_tls
from tests.redis.proxy import Proxy
from tests.redis.scripts import COUNT, script
from tests.redis.stores import Place
from tests.servers.addresses import LOOPBACK, free_port
from tests.servers.redis import FAST, OwnRedis, RedisServer, names
from tests.servers.servers import Servers

ECHO = script("return {KEYS[1], ARGV[1], ARGV[2], ARGV[3]}", "jobs")
"""Returns its arguments."""


@pytest.fixture
def server(place: Place) -> Iterator[Server]:
    with opened(place.url) as server:
        yield server


@pytest.fixture
def proxy(redis_server: RedisServer) -> Iterator[Proxy]:
    with Proxy(redis_server) as proxy:
        yield proxy


def counted(place: Place) -> int:
    return int(place.execute("GET", place.key("number")) or 0)


def connections_of(name: str, place: Place) -> list[str]:
    """Return the ids of the connections with this name."""
    return sorted(each["id"] for each in place.execute("CLIENT LIST") if each["name"] == name)


def requests(proxy: Proxy) -> list[str]:
    return [message.type for message in proxy.passed if message.sender == "client"]


def test_a_script_gets_its_keys_and_arguments_as_they_were_given(place: Place, server: Server) -> None:
    answer = server.run(ECHO, ["für", b"\xff\r\n", 7])

    assert answer == [place.key("jobs").encode(), "für".encode(), b"\xff\r\n", b"7"]


def test_a_script_that_the_server_knows_is_sent_by_its_name_alone(proxy: Proxy, place: Place) -> None:
    with opened(proxy.url_of(place.prefix)) as server:
        count(server)
        before_it = len(requests(proxy))
        count(server)

        assert requests(proxy)[before_it:] == ["EVALSHA"]


def test_a_server_that_has_forgotten_its_scripts_runs_them_all_the_same(place: Place, server: Server) -> None:
    count(server)
    place.execute("SCRIPT FLUSH")

    assert server.run(COUNT, [1], may_repeat=False) == 2


def test_a_request_whose_answer_was_lost_is_sent_again_if_it_may_be(proxy: Proxy, place: Place) -> None:
    with opened(proxy.url_of(place.prefix)) as server:
        count(server)
        cut = proxy.drop_answer("EVALSHA")

        assert count(server) == 3
        assert cut.is_done


def test_a_request_that_may_not_be_repeated_is_done_once_though_its_answer_was_lost(proxy: Proxy, place: Place) -> None:
    with opened(proxy.url_of(place.prefix)) as server:
        count(server)
        proxy.drop_answer("EVALSHA")

        with pytest.raises(StoreUnavailable, match="cannot reach"):
            server.run(COUNT, [1], may_repeat=False)

        assert counted(place) == 2


def test_an_answer_that_was_cut_in_the_middle_is_not_taken_for_one(proxy: Proxy, place: Place) -> None:
    with opened(proxy.url_of(place.prefix)) as server:
        proxy.cut(within(from_server("x" * 1000)))

        assert server.run(script("return ARGV[1]"), ["x" * 1000]) == b"x" * 1000


def test_a_connection_that_was_closed_while_nobody_used_it_costs_no_request(proxy: Proxy, place: Place) -> None:
    with opened(proxy.url_of(place.prefix)) as server:
        proxy.cut_all()

        assert server.run(COUNT, [1], may_repeat=False) == 1


def test_a_server_that_is_restarted_is_waited_for_by_one_who_reached_it_before(servers: Servers) -> None:
    """Slow: a server of the cluster stops and starts."""
    with servers.own_redis(names()[-1], FAST) as own, opened(own.url) as server:
        own.kill()
        asking = in_a_thread(lambda: server.run(COUNT, [1], may_repeat=False))
        own.start()
        asking.join(PATIENCE)

        assert not asking.is_alive()
        assert count(server) == 2


def test_a_server_that_stays_away_is_told_about_when_the_time_is_over(servers: Servers) -> None:
    with servers.own_redis(names()[-1], FAST) as own, opened(f"{own.url}?timeout=1") as server:
        own.kill()

        with pytest.raises(StoreUnavailable, match=r"cannot reach .*refused"):
            count(server)


def test_a_server_that_was_never_there_is_told_about_at_once() -> None:
    raised = refusal_at(f"redis://{LOOPBACK}:{free_port()}?timeout=3600")

    assert type(raised) is StoreUnavailable
    assert "refused" in str(raised)


def test_the_driver_tries_nothing_again_by_itself(proxy: Proxy, place: Place) -> None:
    cut = proxy.drop_request("CLIENT")

    raised = refusal_at(proxy.url_of(place.prefix))

    assert cut.is_done
    assert type(raised) is StoreUnavailable


def test_a_server_that_does_not_answer_is_told_about_when_the_time_is_over(proxy: Proxy, place: Place) -> None:
    with opened(proxy.url_of(place.prefix) + "&timeout=1") as server, proxy.black_hole():
        said = str(refusal_of(server))

    assert "did not respond within 1 s" in said


def test_after_one_that_was_not_answered_none_of_the_connections_of_before_is_used(proxy: Proxy, place: Place) -> None:
    with opened(proxy.url_of(place.prefix) + "&timeout=1") as server:
        with server._pool.connection(), server._pool.connection(), server._pool.connection():
            pass
        with proxy.black_hole():
            refusal_of(server)

        assert server._pool._idle == []


def interrupt_when_held(hold: Hold, thread: int) -> None:
    hold.wait()
    signal.pthread_kill(thread, signal.SIGUSR1)


def test_what_an_interrupt_left_unread_is_not_taken_for_the_answer_of_the_next(proxy: Proxy, place: Place) -> None:
    answer = script("return ARGV[1]")

    def interrupt(*_: object) -> None:
        raise KeyboardInterrupt

    with opened(proxy.url_of(place.prefix)) as server:
        server.run(answer, ["none"])
        former = signal.signal(signal.SIGUSR1, interrupt)
        try:
            with proxy.holding() as hold:
                in_a_thread(partial(interrupt_when_held, hold, threading.get_ident()))
                with pytest.raises(KeyboardInterrupt):
                    server.run(answer, ["first"])
        finally:
            signal.signal(signal.SIGUSR1, former)

        assert server.run(answer, ["second"]) == b"second"


def test_an_answer_that_comes_after_an_interrupt_is_not_taken_for_that_of_the_next(
    proxy: Proxy, place: Place, monkeypatch: pytest.MonkeyPatch
) -> None:
    answer = script("return ARGV[1]")
    answers: list[bytes] = []

    def interrupted(**_: object) -> None:
        raise KeyboardInterrupt

    with opened(proxy.url_of(place.prefix)) as server:
        server.run(answer, ["none"])
        with server._pool.connection() as wire:
            monkeypatch.setattr(wire._connection, "read_response", interrupted)
        asked = len(requests(proxy))
        with proxy.holding():
            with pytest.raises(KeyboardInterrupt):
                server.run(answer, ["first"])
            monkeypatch.undo()
            asking = in_a_thread(lambda: answers.append(server.run(answer, ["second"])))
            until(lambda: len(requests(proxy)) >= asked + 2)
        asking.join(PATIENCE)

    assert answers == [b"second"]


def test_threads_get_each_its_own_answer(server: Server) -> None:
    answer = script("return ARGV[1]")

    with ThreadPoolExecutor(20) as pool:
        answers = list(pool.map(lambda number: server.run(answer, [number]), range(500)))

    assert answers == [str(number).encode() for number in range(500)]


def test_no_more_connections_are_opened_than_allowed(place: Place) -> None:
    with opened(place.url + "&connections=2&client_name=few") as server:
        with ThreadPoolExecutor(10) as pool:
            list(pool.map(lambda _: count(server), range(100)))

        assert 1 <= len(connections_of("few", place)) <= 2


def test_one_who_waits_too_long_for_a_connection_is_told_how_to_have_more(proxy: Proxy, place: Place) -> None:
    with opened(proxy.url_of(place.prefix) + "&connections=1&timeout=1") as server, server._pool.connection():
        said = str(refusal_of(server))

    assert "all 1 connections" in said
    assert "allow more with '?connections='" in said


def test_a_connection_that_is_in_use_while_another_server_is_to_be_asked_is_not_used_again(server: Server) -> None:
    with server._pool.connection() as former:
        server._pool.discard_connections()

    with server._pool.connection() as wire:
        assert wire is not former
    assert not former.is_open


def test_a_connection_that_is_in_use_at_the_end_is_closed_after_it(server: Server) -> None:
    with server._pool.connection() as wire:
        server.close()
        assert wire.is_open

    assert not wire.is_open


def test_a_child_asks_and_listens_by_connections_of_its_own_and_leaves_those_of_its_parent(place: Place) -> None:
    command = [sys.executable, "-m", "tests.redis.forked", place.url]

    played = subprocess.run(command, stdout=subprocess.PIPE, check=False, timeout=PATIENCE)

    assert json.loads(played.stdout) == {
        "child": 0,
        "count": 3,
        "are the same": True,
        "heard": "for the parent",
        "nothing changed": True,
    }


def test_tls_is_spoken_with_a_server_whose_certificate_is_trusted(redis_server: RedisServer, place: Place) -> None:
    with (
        Proxy(redis_server, own_tls()) as proxy,
        opened(f"{proxy.url_of(place.prefix)}&ssl_ca_certs={CERTIFICATE}") as server,
    ):
        answers = [server.run(COUNT, [1], may_repeat=False) for _ in range(2)]

    assert answers == [1, 2]


def is_busy(client: redis.Redis) -> bool:
    """Return whether a script is running for long."""
    try:
        client.ping()
    except redis.ResponseError as exc:
        return "BUSY" in str(exc)
    return False


def test_a_request_waits_for_the_end_of_a_script_that_takes_long(own_redis: OwnRedis) -> None:
    with opened(own_redis.url) as server, redis.Redis.from_url(own_redis.url) as client:
        client.config_set("lua-time-limit", 1)
        endless = in_a_thread(lambda: refusal_of(server, script("while true do end")))
        until(lambda: is_busy(client))
        asking = in_a_thread(lambda: server.run(COUNT, [1], may_repeat=False))
        client.script_kill()
        asking.join(PATIENCE)
        endless.join(PATIENCE)

        assert count(server) == 2
